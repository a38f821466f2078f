package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/agent"
)

func renderCommand() *cobra.Command {
	var src sourceFlags
	var nf nodeFlags
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Print the desired state as text that the kernel's tools load",
		Long: `Prints what sync would make of the manifests, for iptables-restore, ipset, ip and
ipvsadm. Needs no root. Pods without an address get the one that a fresh node
would give them, or the one they have when the state directory can be read.`,
		Example: `  toyproxy render --backend iptables -f examples/guestbook | sudo iptables-restore --test`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := desired(cmd.Context(), cmd.InOrStdin(), &src, &nf)
			if err != nil {
				return err
			}
			printProblems(cmd.ErrOrStderr(), d.Problems)
			b, err := nf.newBackend(nf.backend.resolve(), nf.scope())
			if err != nil {
				return err
			}
			text, err := b.Render(d.Table)
			if err != nil {
				return err
			}
			if out.isJSON() {
				return printJSON(cmd.OutOrStdout(), renderJSON{string(nf.backend.resolve()), text, problemsJSON(d.Problems)})
			}
			if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
				return fmt.Errorf("rendered text: %w", err)
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
	return cmd
}

// renderJSON is the stable form of a rendered state.
type renderJSON struct {
	Backend  string        `json:"backend"`
	Text     string        `json:"text"`
	Problems []problemJSON `json:"problems"`
}

// desired resolves what the node should look like without touching it: the
// manifests when any are named, else what the last sync left, else the default
// manifests.
func desired(ctx context.Context, stdin io.Reader, src *sourceFlags, nf *nodeFlags) (agent.Desired, error) {
	sc := nf.scope()
	kept := readState(sc)
	in := kept
	if len(src.files) > 0 || kept.empty() {
		var err error
		if in.Input, err = src.source(stdin, kept.Objects.Services).load(ctx); err != nil {
			return agent.Desired{}, err
		}
	}
	node, err := src.agentNode(in.Input)
	if err != nil {
		return agent.Desired{}, err
	}
	pods, err := predictPods(ctx, src, in.Input, sc)
	if err != nil {
		return agent.Desired{}, err
	}
	return agent.Resolve(in.Input, node, pods), nil
}
