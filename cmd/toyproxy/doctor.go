package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/doctor"
)

func doctorCommand() *cobra.Command {
	var nf nodeFlags
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "What this kernel and machine can do, and what stands in the way",
		Long: `Asks the kernel which backends can work here, and looks for what may disturb them:
a live kube-proxy, rules of another iptables engine, settings. Changes nothing.
Exits with 69 when no backend can work, and with 77 when it is not run by root:
then it tells only what anybody may know.`,
		Example: `  sudo toyproxy doctor`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := enterNamespace(nf.netns.value); err != nil {
				return err
			}
			found := doctor.Examine(cmd.Context(), doctor.Options{StateDir: nf.scope().stateDir})
			w := cmd.OutOrStdout()
			if out.isJSON() {
				if err := printJSON(w, found); err != nil {
					return err
				}
			} else {
				for _, f := range found {
					fmt.Fprintf(w, "%-8s %s: %s\n", f.Status, f.Check, printable(f.Detail))
					if f.Mend != "" {
						fmt.Fprintf(w, "%-8s   %s\n", "", f.Mend)
					}
				}
			}
			switch {
			case os.Geteuid() != 0:
				return exit(exitNeedsRoot, fmt.Errorf("doctor needs root to ask the kernel what it can do: run it with sudo"))
			case !doctor.Usable(found):
				return exit(exitUnsupported, fmt.Errorf("no backend can work on this kernel"))
			}
			return nil
		},
	}
	nf.register(cmd)
	out.register(cmd, "json")
	return cmd
}
