package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/sysctl"
)

func downCommand() *cobra.Command {
	var nf nodeFlags
	var out outputFlag
	var dryRun, all bool
	cmd := &cobra.Command{
		Use:     "down",
		Aliases: []string{"cleanup"},
		Short:   "Remove everything toyproxy made in this node, and nothing else",
		Long: `Removes rules of every backend and both iptables engines, sets, virtual servers,
addresses, Pods with their network, and puts back the sysctls that were changed.`,
		Example: `  sudo toyproxy down
  sudo toyproxy down --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needRoot("down"); err != nil {
				return err
			}
			if all {
				return downAllNodes(cmd, &nf, syncOptions{json: out.isJSON(), dryRun: dryRun})
			}
			if err := enterNamespace(nf.netns.value); err != nil {
				return err
			}
			return runDown(cmd, &nf, syncOptions{json: out.isJSON(), dryRun: dryRun})
		},
	}
	nf.registerScope(cmd)
	out.register(cmd, "json")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be removed and change nothing")
	allNodesFlag(cmd, &all, "remove every node that sync --all-nodes made, with what is in it")
	return cmd
}

// planDown plans to remove everything of a node.
func planDown(ctx context.Context, nf *nodeFlags, sc scope) (dataplane.Plan, error) {
	a, err := buildAgentForDown(nf, sc)
	if err != nil {
		return nil, err
	}
	plan, err := a.Down(ctx)
	if err != nil {
		return nil, err
	}
	counting, err := sysctl.Restore(sc.accountingJournal())
	if err != nil {
		return nil, err
	}
	return dataplane.Plans{plan, counting}, nil
}

// downJSON is the stable form of what down did.
type downJSON struct {
	DryRun  bool               `json:"dryRun,omitempty"`
	Changes []dataplane.Change `json:"changes"`
	Notes   []string           `json:"notes"`
}

func runDown(cmd *cobra.Command, nf *nodeFlags, o syncOptions) (failed error) {
	sc := nf.scope()
	if !o.dryRun {
		lock, err := lockNode(cmd.Context(), sc)
		if err != nil {
			return err
		}
		defer func() {
			if failed != nil {
				lock.Unlock()
			} else {
				lock.Forget()
			}
		}()
	}
	plan, err := planDown(cmd.Context(), nf, sc)
	if err != nil {
		return err
	}
	changes, remarks := plan.Changes(), dataplane.Remarks(plan)
	if !o.json {
		printRemarks(cmd.ErrOrStderr(), remarks)
	}
	if !o.dryRun {
		if err := plan.Apply(cmd.Context()); err != nil {
			return err
		}
		if err := forgetState(sc); err != nil {
			return err
		}
	}
	remindOfMembers(cmd, nf)
	return printDown(cmd.OutOrStdout(), changes, remarks, o)
}

func printDown(w io.Writer, changes []dataplane.Change, remarks []string, o syncOptions) error {
	switch {
	case o.json:
		return printJSON(w, downJSON{o.dryRun, nonNil(changes), nonNil(remarks)})
	case o.dryRun:
		printChanges(w, changes, true)
	case len(changes) == 0 && len(remarks) == 0:
		fmt.Fprintln(w, "ok: there was nothing of toyproxy in this node")
	case len(remarks) > 0:
		fmt.Fprintf(w, "ok: %s made; the notes above name what stays\n", count(len(changes), "change"))
	default:
		fmt.Fprintf(w, "ok: %s made, nothing of toyproxy is left in this node\n", count(len(changes), "change"))
	}
	return nil
}
