package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/cluster/state"
)

func renderCommand() *cobra.Command {
	var src sourceFlags
	var nf nodeFlags
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Print the desired state as text that the kernel's tools load",
		Long: `Prints what sync would make of the manifests, for nft, iptables-restore, ipset, ip
and ipvsadm. Needs no root. Pods without an address get the one that a fresh node
would give them, or the one they have when the state directory can be read.
NodePorts answer on the addresses of --node-addresses, else on those of the Node
object, else on those of this machine.`,
		Example: `  toyproxy render --backend iptables -f examples/guestbook.yaml | sudo iptables-restore --test`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := desired(cmd.Context(), cmd.InOrStdin(), &src, nf.scope(), false)
			if err != nil {
				return err
			}
			printProblems(cmd.ErrOrStderr(), d.Problems)
			if why := nf.backend.choose(state.ReadLast(nf.scope().rulesDir()).Backend); why != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: for backend %s (%s); --backend chooses another\n", nf.backend, printable(why))
			}
			text, err := nf.newBackend(nf.backend, nf.scope()).Render(d.Table)
			if err != nil {
				return err
			}
			if out.isJSON() {
				err = printJSON(cmd.OutOrStdout(), renderJSON{string(nf.backend), text, problemsJSON(d.Problems)})
			} else if _, err = io.WriteString(cmd.OutOrStdout(), text); err != nil {
				err = fmt.Errorf("rendered text: %w", err)
			}
			if err != nil {
				return err
			}
			if len(d.Errors()) > 0 {
				return exit(exitBadManifest, nil)
			}
			return nil
		},
	}
	src.register(cmd)
	nf.register(cmd)
	out.register(cmd, "json")
	src.registerAddrs(cmd)
	return cmd
}

// renderJSON is the stable form of a rendered state.
type renderJSON struct {
	Backend  string        `json:"backend"`
	Text     string        `json:"text"`
	Problems []problemJSON `json:"problems"`
}
