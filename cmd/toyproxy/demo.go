package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/demo"
)

func demoCommand() *cobra.Command {
	backend := backendAuto
	cmd := &cobra.Command{
		Use:   "demo [SCENARIO]",
		Short: "Play a lesson on the real kernel, in namespaces of its own",
		Long: `Plays a lesson with the commands a learner can type, on real Pods and kernel rules
inside namespaces made for it; nothing of the host changes. What it shows it
also asserts: it ends with an error when something did not hold.
Without SCENARIO it lists the lessons.`,
		Example: `  sudo toyproxy demo service
  sudo toyproxy demo service --backend ipvs`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, s := range demo.Scenarios() {
				names = append(names, s.Name+"\t"+s.Short)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, s := range demo.Scenarios() {
					fmt.Fprintf(cmd.OutOrStdout(), "%-12s %s\n", s.Name, s.Short)
				}
				return nil
			}
			return runDemo(cmd, args[0], backend)
		},
	}
	cmd.Flags().Var(&backend, "backend", "auto, iptables or ipvs")
	return cmd
}

func runDemo(cmd *cobra.Command, name string, backend backendName) error {
	s, err := demo.Find(name)
	if err != nil {
		return exit(exitUsage, err)
	}
	if err := needRoot("demo"); err != nil {
		return err
	}
	if !demo.InSandbox() {
		code, err := demo.Sandbox(cmd.Context(), []string{"demo", name, "--backend", string(backend)})
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
	return s.Play(cmd.Context(), demo.Options{
		Backend: string(backend.resolve()), Self: self, Dir: dir, Out: cmd.OutOrStdout()})
}
