package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/demo"
)

func demoCommand() *cobra.Command {
	backend := backendAuto
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "demo [SCENARIO]",
		Short: "Play a lesson on the real kernel, in namespaces of its own",
		Long: `Plays a lesson with the commands a learner can type, on real Pods and kernel rules
inside namespaces made for it; nothing of the host changes. What it shows it
also asserts: it ends with an error when something did not hold.
Without SCENARIO it lists the lessons; "all" plays them all, each in namespaces of its own.`,
		Example: `  sudo toyproxy demo service
  sudo toyproxy demo rolling-update
  sudo toyproxy demo all
  sudo toyproxy demo service --backend ipvs`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, s := range demo.Scenarios() {
				names = append(names, s.Name+"\t"+s.Short)
			}
			names = append(names, allDemos+"\tevery one of them")
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listDemos(cmd.OutOrStdout(), out.isJSON())
			}
			if args[0] == allDemos {
				return runAllDemos(cmd, backend, out.isJSON())
			}
			return runDemo(cmd, args[0], backend, out.isJSON())
		},
	}
	cmd.Flags().Var(&backend, "backend", "auto, iptables, ipvs or nftables")
	out.register(cmd, "json")
	return cmd
}

// scenarioJSON is the stable form of a lesson in the list.
type scenarioJSON struct {
	Name  string `json:"name"`
	Short string `json:"short"`
}

// demoJSON is the stable form of a lesson that was played.
type demoJSON struct {
	Scenario string `json:"scenario"`
	Backend  string `json:"backend"`
	Asserted int    `json:"asserted"`
	// Failed is what did not hold; empty when all did.
	Failed string `json:"failed,omitempty"`
}

func listDemos(w io.Writer, asJSON bool) error {
	var list []scenarioJSON
	for _, s := range demo.Scenarios() {
		list = append(list, scenarioJSON{s.Name, s.Short})
		if !asJSON {
			fmt.Fprintf(w, "%-15s %s\n", s.Name, s.Short)
		}
	}
	if asJSON {
		return printJSON(w, list)
	}
	return nil
}

// allDemos is the name that means every scenario.
const allDemos = "all"

// runAllDemos plays every scenario, and goes on after one that fails.
func runAllDemos(cmd *cobra.Command, backend backendName, asJSON bool) error {
	if asJSON {
		return exit(exitUsage, errors.New("-o json is for one scenario at a time"))
	}
	if err := needRoot("demo"); err != nil {
		return err
	}
	var failed []string
	for _, s := range demo.Scenarios() {
		fmt.Fprintf(cmd.OutOrStdout(), "\n=== %s: %s\n", s.Name, s.Short)
		code, err := demo.Sandbox(cmd.Context(), []string{"demo", s.Name, "--backend", string(backend)})
		if err != nil {
			return err
		}
		if code != 0 {
			failed = append(failed, s.Name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d scenarios failed: %s", len(failed), len(demo.Scenarios()), strings.Join(failed, ", "))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "\n=== all %d scenarios held\n", len(demo.Scenarios()))
	return nil
}

func runDemo(cmd *cobra.Command, name string, backend backendName, asJSON bool) error {
	s, err := demo.Find(name)
	if err != nil {
		return exit(exitUsage, err)
	}
	if err := needRoot("demo"); err != nil {
		return err
	}
	if !demo.InSandbox() {
		args := []string{"demo", name, "--backend", string(backend)}
		if asJSON {
			args = append(args, "-o", "json")
		}
		code, err := demo.Sandbox(cmd.Context(), args)
		if err == nil && code != 0 {
			err = exit(code, nil)
		}
		return err
	}
	dir, err := demo.Furnish()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("path of this program: %w", err)
	}
	backend.choose("")
	o := demo.Options{Backend: string(backend), Self: self, Dir: dir, Out: cmd.OutOrStdout()}
	if asJSON {
		o.Out = cmd.ErrOrStderr()
	}
	asserted, err := s.Play(cmd.Context(), o)
	if asJSON {
		res := demoJSON{Scenario: name, Backend: o.Backend, Asserted: asserted}
		if err != nil {
			res.Failed = err.Error()
		}
		err = errors.Join(err, printJSON(cmd.OutOrStdout(), res))
	}
	return err
}
