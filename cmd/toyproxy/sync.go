package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/dataplane"
)

func syncCommand() *cobra.Command {
	var src sourceFlags
	var nf nodeFlags
	var out outputFlag
	var dryRun, all bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Make Pods and kernel match the manifests, once",
		Long: `One pass: objects, Pods, endpoints, kernel; then it returns. Nothing of toyproxy
stands in the path of a packet, and nothing but the Pods' own processes stays.
A second pass changes nothing and says so.

With Deployments and their like it goes on, pass after pass, until they are as they
are to be, or --timeout is over.`,
		Example: `  sudo toyproxy sync
  sudo toyproxy sync -f examples/guestbook.yaml --backend ipvs
  sudo toyproxy sync --netns lab --dry-run
  sudo toyproxy sync --all-nodes -f examples/multi-node`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needRoot("sync"); err != nil {
				return err
			}
			if all {
				return syncAllNodes(cmd, &src, &nf, syncOptions{json: out.isJSON(), dryRun: dryRun})
			}
			if err := enterNamespace(nf.netns.value); err != nil {
				return err
			}
			return runSync(cmd, &src, &nf, syncOptions{json: out.isJSON(), dryRun: dryRun, timeout: timeout})
		},
	}
	src.register(cmd)
	nf.register(cmd)
	out.register(cmd, "json")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the plan and change nothing")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to go on until Deployments and their like are as they are to be")
	allNodesFlag(cmd, &all, "make every Node of the manifests a network namespace, and sync each")
	return cmd
}

type syncOptions struct {
	json, dryRun bool
	// timeout bounds how long it goes on until workloads are as they are to be.
	timeout time.Duration
}

// syncJSON is the stable form of what sync did.
type syncJSON struct {
	Manifests string `json:"manifests"`
	Backend   string `json:"backend"`
	DryRun    bool   `json:"dryRun,omitempty"`
	// Error says why not all changes could be made; absent when they were.
	Error     string             `json:"error,omitempty"`
	Pods      int                `json:"pods"`
	Services  int                `json:"services"`
	Frontends int                `json:"frontends"`
	Endpoints int                `json:"endpoints"`
	Changes   []dataplane.Change `json:"changes"`
	Flows     []dataplane.Change `json:"flows"`
	Problems  []problemJSON      `json:"problems"`
	Notes     []string           `json:"notes"`
}

func runSync(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags, o syncOptions) error {
	ctx, start := cmd.Context(), time.Now()
	sc := nf.scope()
	if !o.dryRun {
		lock, err := lockNode(ctx, sc)
		if err != nil {
			return err
		}
		defer lock.Unlock()
	}
	p, err := planNode(cmd, src, nf, sc, o.dryRun)
	if err != nil {
		return err
	}
	if !o.json {
		p.introduce(cmd.OutOrStdout())
		printProblems(cmd.ErrOrStderr(), p.Problems)
		printRemarks(cmd.ErrOrStderr(), p.Remarks())
	}
	failed := p.strict(src.strict)
	var changes []dataplane.Change // of many Services they take more memory than all else
	switch {
	case failed != nil:
	case o.dryRun:
		changes = p.Changes()
	default:
		if o.json {
			changes = p.Changes()
		}
		failed = p.Apply(ctx)
		if failed == nil {
			p, failed = goOn(cmd, p, o, func() (*nodePlan, error) { return planNode(cmd, src, nf, sc, false) })
			if o.json {
				changes = p.Changes()
			}
		}
	}
	err = printSync(cmd, nf, p, syncOutcome{o, changes, failed, time.Since(start)})
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	return p.badManifest()
}

// syncOutcome is what became of a sync.
type syncOutcome struct {
	syncOptions
	changes []dataplane.Change
	failed  error
	took    time.Duration
}

// printSync prints the outcome in the form that was asked for.
func printSync(cmd *cobra.Command, nf *nodeFlags, p *nodePlan, o syncOutcome) error {
	if o.json {
		return printJSON(cmd.OutOrStdout(), syncJSON{
			Manifests: p.source.description, Backend: string(nf.backend), DryRun: o.dryRun, Error: text(o.failed),
			Pods: len(p.Pods), Services: len(p.Objects.Services), Frontends: len(p.Table.Frontends),
			Endpoints: p.EndpointCount(), Changes: nonNil(o.changes), Flows: nonNil(p.Flows.Changes()),
			Problems: problemsJSON(p.Problems), Notes: nonNil(p.Remarks())})
	}
	if !o.dryRun {
		printRemarks(cmd.ErrOrStderr(), dataplane.Remarks(p.Flows))
	}
	switch {
	case o.failed != nil && !p.Programmed():
	case o.dryRun:
		printChanges(cmd.OutOrStdout(), o.changes, true)
	default:
		report(cmd.OutOrStdout(), nf, p, closing(o.failed, o.took))
	}
	return nil
}

// text is an error's, or empty.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// closing is the last line of a report.
func closing(err error, took time.Duration) string {
	if err != nil {
		return fmt.Sprintf("Done in %.2fs, but not every Pod is as it should be: see the error.", took.Seconds())
	}
	return fmt.Sprintf("Ready in %.2fs. Not watching: run sync again after a change.", took.Seconds())
}

// report prints what sync did: at most six lines and one command to try.
func report(w io.Writer, nf *nodeFlags, p *nodePlan, closing string) {
	backend := nf.backend
	flows := len(p.Flows.Changes())
	if p.Empty() && flows == 0 {
		fmt.Fprintf(w, "ok         nothing changed: %s\n", tally(p.Plan, backend))
		return
	}
	line := func(name string, plan dataplane.Plan, what string) {
		add, update, remove := dataplane.Tally(plan)
		fmt.Fprintf(w, "%-10s %s (+%d ~%d -%d)\n", name, what, add, update, remove)
	}
	line("Pods", dataplane.Plans{p.Create, p.Delete}, count(len(p.Pods), "Pod"))
	line(string(backend), p.Rules, count(len(p.Table.Frontends), "frontend")+", "+count(p.EndpointCount(), "endpoint"))
	if n := len(p.Leftovers.Changes()); n > 0 {
		line("leftovers", p.Leftovers, "of other backends removed")
	}
	if flows > 0 {
		line("flows", p.Flows, "that led where no new one would, removed")
	}
	fmt.Fprintln(w, closing)
	if try := p.suggestion(); try != "" {
		fmt.Fprintf(w, "\nTry:   %s\nUndo:  %s\n", try, p.undo())
	}
}

func tally(p *agent.Plan, backend backendName) string {
	return fmt.Sprintf("%s, %s, %s, %s on %s", count(len(p.Pods), "Pod"), count(len(p.Objects.Services), "Service"),
		count(len(p.Table.Frontends), "frontend"), count(p.EndpointCount(), "endpoint"), backend)
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
