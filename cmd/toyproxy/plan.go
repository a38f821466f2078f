package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/dataplane"
)

// planJSON is the stable form of a plan, and of what verify found.
type planJSON struct {
	Manifests string             `json:"manifests"`
	Backend   string             `json:"backend"`
	Add       int                `json:"add"`
	Change    int                `json:"change"`
	Remove    int                `json:"remove"`
	Changes   []dataplane.Change `json:"changes"`
	Problems  []problemJSON      `json:"problems"`
	Notes     []string           `json:"notes"`
}

func makePlanJSON(nf *nodeFlags, p *nodePlan, changes []dataplane.Change) planJSON {
	add, update, remove := countChanges(changes)
	return planJSON{p.source.description, string(nf.backend), add, update, remove,
		nonNil(changes), problemsJSON(p.Problems), nonNil(p.Remarks())}
}

func planCommand() *cobra.Command {
	var src sourceFlags
	var nf nodeFlags
	var out outputFlag
	var detailed, brief, all bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what sync would change, and why",
		Long: `Reads the manifests and the kernel and lists each change with its sign (+ added,
~ changed, - removed), the object it serves, the reason, and the exact lines.
Changes nothing.`,
		Example: `  sudo toyproxy plan -f examples/guestbook.yaml
  sudo toyproxy plan --detailed-exitcode --brief; echo $?`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				return lookAtAllNodes(cmd, &src, &nf, planOptions{json: out.isJSON(), brief: brief, detailed: detailed})
			}
			p, err := readNode(cmd, &src, &nf, "plan")
			if err != nil {
				return err
			}
			changes := p.findings()
			if out.isJSON() {
				err = printJSON(cmd.OutOrStdout(), makePlanJSON(&nf, p, changes))
			} else {
				p.introduce(cmd.OutOrStdout())
				printProblems(cmd.ErrOrStderr(), p.Problems)
				printRemarks(cmd.ErrOrStderr(), p.Remarks())
				printChanges(cmd.OutOrStdout(), changes, !brief)
			}
			if err != nil {
				return err
			}
			if err := p.badManifest(); err != nil {
				return err
			}
			if detailed && len(changes) > 0 {
				return exit(exitChanges, nil)
			}
			return nil
		},
	}
	src.register(cmd)
	nf.register(cmd)
	out.register(cmd, "json")
	cmd.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit with 2 when there are changes")
	cmd.Flags().BoolVar(&brief, "brief", false, "leave out the exact lines")
	allNodesFlag(cmd, &all, "plan every Node of the manifests, as sync --all-nodes makes them")
	return cmd
}

func verifyCommand() *cobra.Command {
	var src sourceFlags
	var nf nodeFlags
	var out outputFlag
	var all bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the kernel with the desired state",
		Long: `Finds what somebody else changed: a rule deleted, a chain flushed, a jump gone, a
virtual or real server, a weight, an address, a Pod; and tracked flows that lead
where no new one would. Exits with 3 and the list when it found any.
'toyproxy sync' repairs exactly that.`,
		Example: `  sudo toyproxy verify && echo the kernel is as it should be`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				return lookAtAllNodes(cmd, &src, &nf, planOptions{json: out.isJSON(), verify: true})
			}
			p, err := readNode(cmd, &src, &nf, "verify")
			if err != nil {
				return err
			}
			changes := p.findings()
			w := cmd.OutOrStdout()
			switch {
			case out.isJSON():
				err = printJSON(w, makePlanJSON(&nf, p, changes))
			case len(changes) == 0:
				printProblems(cmd.ErrOrStderr(), p.Problems)
				fmt.Fprintf(w, "ok: %s, as desired\n", tally(p.Plan, nf.backend))
			default:
				printProblems(cmd.ErrOrStderr(), p.Problems)
				for _, c := range changes {
					fmt.Fprintln(w, printable(c.String()))
				}
				fmt.Fprintf(w, "%s. To repair: %s\n", count(len(changes), "finding"), p.again("sync"))
			}
			if err != nil {
				return err
			}
			if len(changes) > 0 {
				return exit(exitFindings, nil)
			}
			return p.badManifest()
		},
	}
	src.register(cmd)
	nf.register(cmd)
	out.register(cmd, "json")
	allNodesFlag(cmd, &all, "verify every Node of the manifests")
	return cmd
}

// readNode enters the namespace and plans, for commands that only look.
func readNode(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags, what string) (*nodePlan, error) {
	if err := needRoot(what); err != nil {
		return nil, err
	}
	if err := enterNamespace(nf.netns.value); err != nil {
		return nil, err
	}
	p, err := planNode(cmd, src, nf, nf.scope(), true)
	if err != nil {
		return nil, err
	}
	return p, p.ReadFlows(cmd.Context())
}

// findings are the changes of a plan and the flows that are stale already.
func (p *nodePlan) findings() []dataplane.Change {
	return append(p.Changes(), p.Flows.Changes()...)
}
