package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the linker: -X main.version=….
var version = ""

const rootLong = `Kubernetes Services on any Linux box: with a cluster, or with none.

toyproxy reads ordinary Kubernetes YAML from a directory, matches Pod labels
against Service selectors and programs their addresses into the kernel with
nftables, iptables or IPVS, in this network namespace or another (--netns).

  sudo toyproxy sync                        # ./manifests, else the built-in demo
  sudo ip netns exec pod-a curl 10.96.0.10  # which Pod answered?
  sudo toyproxy down                        # as if it had never been`

const exitCodesHelp = `0   done
1   failed
2   changes present (plan --detailed-exitcode)
3   findings: the kernel drifted (verify)
64  usage
65  a manifest is wrong; the good ones are in force (with --strict: nothing was done)
69  the kernel lacks a feature
77  needs root
`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "toyproxy",
		Short:             "Kubernetes Services on any Linux box",
		Long:              rootLong,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return meanMember(cmd) },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit(exitUsage, fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath()))
	})
	root.AddGroup(
		&cobra.Group{ID: "do", Title: "Do:"},
		&cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "learn", Title: "Learn:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("do", syncCommand(), runCommand(), scaleCommand(), rolloutCommand(), deleteCommand(), downCommand())
	add("do", execCommand(), newDNSCommand(), ingressCommand())
	add("look", logsCommand())
	add("look", planCommand(), verifyCommand(), renderCommand(), validateCommand(), getCommand(), describeCommand(), topCommand(), eventsCommand(),
		waitCommand(), explainCommand())
	add("learn", demoCommand(), loadCommand(), doctorCommand())
	root.AddCommand(versionCommand(), exitCodesTopic())
	root.AddCommand(hiddenCommands()...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	knownTopicsOnly(root)
	usageErrors(root)
	return root
}

// knownTopicsOnly makes help and completion refuse what they do not know, which
// cobra answers with its general help and success.
func knownTopicsOnly(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args = cobra.NoArgs
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return fmt.Errorf("there is no help topic %q", strings.Join(args, " "))
				}
				return nil
			}
		}
	}
}

// usageErrors makes wrong arguments of every command end with the usage code.
func usageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return exit(exitUsage, fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath()))
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		usageErrors(sub)
	}
}

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesHelp}
}

func versionCommand() *cobra.Command {
	var o outputFlag
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionInfo{Version: versionString(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if o.isJSON() {
				return printJSON(cmd.OutOrStdout(), v)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "toyproxy %s %s %s\n", v.Version, v.Go, v.Platform)
			return nil
		},
	}
	o.register(cmd, "json")
	return cmd
}

type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// versionString prefers the linker's word, then the module's, then the commit's.
func versionString() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + strings.TrimSpace(s.Value[:min(12, len(s.Value))])
		}
	}
	return "devel"
}
