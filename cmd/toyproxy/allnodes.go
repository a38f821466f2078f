package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/podnet"
)

// allNodesFlag adds the flag that makes a command work on all nodes.
func allNodesFlag(cmd *cobra.Command, all *bool, what string) {
	cmd.Flags().BoolVar(all, "all-nodes", false, what)
}

// fleetJSON is the stable form of what was done, or would be, on all nodes.
type fleetJSON struct {
	Manifests string `json:"manifests"`
	DryRun    bool   `json:"dryRun,omitempty"`
	// Error says why not all changes could be made; absent when they were.
	Error string `json:"error,omitempty"`
	// Wire are the changes to the nodes' namespaces and to what joins them.
	Wire     []dataplane.Change `json:"wire"`
	Nodes    []memberJSON       `json:"nodes"`
	Problems []problemJSON      `json:"problems"`
	Notes    []string           `json:"notes"`
}

// memberJSON is one node's part of it.
type memberJSON struct {
	Node      string             `json:"node"`
	Backend   string             `json:"backend"`
	Pods      int                `json:"pods"`
	Frontends int                `json:"frontends"`
	Endpoints int                `json:"endpoints"`
	Changes   []dataplane.Change `json:"changes"`
}

// fleetPlan is a plan for all nodes, with what is needed to talk about it.
type fleetPlan struct {
	*fleet
	wire  dataplane.Plan
	nodes []memberPlan
	// emptied are the changes to nodes that go.
	emptied []dataplane.Change
}

// planFleet reads everything and plans it. It writes nothing.
func planFleet(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags) (*fleetPlan, error) {
	f, err := readFleet(cmd, src, nf)
	if err != nil {
		return nil, err
	}
	p := &fleetPlan{fleet: f}
	if p.wire, err = f.wire.Plan(cmd.Context()); err != nil {
		return nil, err
	}
	if p.emptied, _, err = emptyNodes(cmd.Context(), nf, f.gone, true); err != nil {
		return nil, err
	}
	return p, p.planNodes(cmd)
}

// planNodes plans what stands in the nodes, for the Pods that they will have.
func (p *fleetPlan) planNodes(cmd *cobra.Command) error {
	pods, err := p.predict(cmd.Context())
	if err != nil {
		return err
	}
	p.nodes, err = p.plan(cmd.Context(), pods, cmd.Flags())
	return err
}

// problems are those of all nodes, each once.
func (p *fleetPlan) problems() []cluster.Problem {
	var out []cluster.Problem
	for _, n := range p.nodes {
		for _, problem := range n.Problems {
			if !slices.Contains(out, problem) {
				out = append(out, problem)
			}
		}
	}
	return out
}

// remarks are those of all nodes.
func (p *fleetPlan) remarks() []string {
	var out []string
	for _, n := range p.nodes {
		for _, r := range n.Remarks() {
			out = append(out, "node "+n.name+": "+r)
		}
	}
	return out
}

// changes are those of the wire and of all nodes, in order, for people.
func (p *fleetPlan) changes() []dataplane.Change {
	out := append(slices.Clone(p.emptied), p.wire.Changes()...)
	for _, n := range p.nodes {
		for _, c := range n.Changes() {
			c.Object = "node " + n.name + ": " + c.Object
			out = append(out, c)
		}
	}
	return out
}

func (p *fleetPlan) json(o syncOptions, failed error) fleetJSON {
	out := fleetJSON{Manifests: p.source.description, DryRun: o.dryRun, Error: text(failed), Wire: append(nonNil(p.emptied), p.wire.Changes()...),
		Problems: problemsJSON(p.problems()), Notes: nonNil(p.remarks())}
	for _, n := range p.nodes {
		out.Nodes = append(out.Nodes, memberJSON{n.name, string(n.backend), len(n.own()), len(n.Table.Frontends), n.EndpointCount(), nonNil(n.Changes())})
	}
	return out
}

// own are the Pods that live on the node.
func (p memberPlan) own() []string {
	var out []string
	for _, pod := range p.Pods {
		if pod.Spec.NodeName == p.name && p.Makes(pod) {
			out = append(out, pod.Name)
		}
	}
	return out
}

// badManifest is the error of a pass that left out something that was wrong.
func (p *fleetPlan) badManifest(what string) error {
	if n := agent.CountErrors(p.problems()); n > 0 {
		return exit(exitBadManifest, fmt.Errorf("%s in the manifests; %s", count(n, "error"), what))
	}
	return nil
}

// syncAllNodes is sync for all nodes.
func syncAllNodes(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags, o syncOptions) error {
	if o.dryRun {
		return planAllNodes(cmd, src, nf, planOptions{json: o.json})
	}
	start := time.Now()
	lock, err := lockWire(cmd.Context(), nf.stateBase())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	p, err := planFleet(cmd, src, nf)
	if err != nil {
		return err
	}
	if !o.json {
		fmt.Fprintf(cmd.OutOrStdout(), "manifests  %s\n", printable(p.source.description))
		printProblems(cmd.ErrOrStderr(), p.problems())
		printRemarks(cmd.ErrOrStderr(), p.remarks())
	}
	if err := p.badManifest("with --strict nothing is done"); err != nil && src.strict {
		return err
	}
	failed := p.applyAll(cmd)
	if o.json {
		err = printJSON(cmd.OutOrStdout(), p.json(o, failed))
	} else if failed == nil {
		p.report(cmd.OutOrStdout(), time.Since(start))
	}
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	return p.badManifest("what is good is in force")
}

// applyAll empties nodes that go, makes those that are missing, and then what
// stands in them. The Pods get the addresses that were planned.
func (p *fleetPlan) applyAll(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if _, _, err := emptyNodes(ctx, p.nf, p.gone, false); err != nil {
		return err
	}
	if err := p.wire.Apply(ctx); err != nil {
		return err
	}
	unlock, err := p.lockAll(ctx, p.names)
	if err != nil {
		return err
	}
	defer unlock(false)
	if len(p.wire.Changes()) > 0 { // plans were made for nodes that were not there
		if err := p.planNodes(cmd); err != nil {
			return err
		}
	}
	if err := p.apply(ctx, p.nodes, cmd.Flags()); err != nil {
		return err
	}
	return nil
}

// report prints what sync did.
func (p *fleetPlan) report(w io.Writer, took time.Duration) {
	if len(p.changes()) == 0 {
		fmt.Fprintf(w, "ok         nothing changed: %s\n", count(len(p.nodes), "node"))
	} else {
		line := func(name, what string, changes []dataplane.Change) {
			add, update, remove := countChanges(changes)
			fmt.Fprintf(w, "%-10s %s (+%d ~%d -%d)\n", name, what, add, update, remove)
		}
		line("wire", count(len(p.nodes), "node"), append(slices.Clone(p.emptied), p.wire.Changes()...))
		for _, n := range p.nodes {
			line(n.name, fmt.Sprintf("%s, %s, %s on %s", count(len(n.own()), "Pod"), count(len(n.Table.Frontends), "frontend"), count(n.EndpointCount(), "endpoint"), n.backend), n.Changes())
		}
	}
	fmt.Fprintln(w, closing(nil, took))
	for _, n := range p.nodes {
		if try := (&nodePlan{Plan: n.Plan}).suggestion(); try != "" && len(p.changes()) > 0 {
			fmt.Fprintf(w, "\nTry:   %s\nUndo:  sudo toyproxy down --all-nodes\n", try)
			return
		}
	}
}

type planOptions struct{ json, brief, detailed, verify bool }

// planAllNodes is plan for all nodes, and with verify set verify.
func planAllNodes(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags, o planOptions) error {
	p, err := planFleet(cmd, src, nf)
	if err != nil {
		return err
	}
	changes := p.changes()
	w := cmd.OutOrStdout()
	switch {
	case o.json:
		if err := printJSON(w, p.json(syncOptions{dryRun: true}, nil)); err != nil {
			return err
		}
	default:
		if !o.verify {
			fmt.Fprintf(w, "manifests  %s\n", printable(p.source.description))
			printRemarks(cmd.ErrOrStderr(), p.remarks())
		}
		printProblems(cmd.ErrOrStderr(), p.problems())
		p.show(cmd, changes, o)
	}
	if o.verify && len(changes) > 0 {
		return exit(exitFindings, nil)
	}
	if err := p.badManifest("what is good is planned"); err != nil {
		return err
	}
	if o.detailed && len(changes) > 0 {
		return exit(exitChanges, nil)
	}
	return nil
}

// lookAtAllNodes is planAllNodes for who has to be root first.
func lookAtAllNodes(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags, o planOptions) error {
	what := "plan"
	if o.verify {
		what = "verify"
	}
	if err := needRoot(what); err != nil {
		return err
	}
	return planAllNodes(cmd, src, nf, o)
}

// show prints the changes as plan does, or as verify does.
func (p *fleetPlan) show(cmd *cobra.Command, changes []dataplane.Change, o planOptions) {
	w := cmd.OutOrStdout()
	switch {
	case !o.verify:
		printChanges(w, changes, !o.brief)
	case len(changes) == 0:
		fmt.Fprintf(w, "ok: %s (%s), as desired\n", count(len(p.names), "node"), nodesList(p.names))
	default:
		for _, c := range changes {
			fmt.Fprintln(w, printable(c.String()))
		}
		fmt.Fprintf(w, "%s. To repair: sudo toyproxy sync --all-nodes %s\n", count(len(changes), "finding"), arguments(cmd.Flags()))
	}
}

// downAllNodes is down for all nodes: what stands in them, and then they.
func downAllNodes(cmd *cobra.Command, nf *nodeFlags, o syncOptions) error {
	ctx := cmd.Context()
	if nf.netns.value != "" {
		return exit(exitUsage, fmt.Errorf("--all-nodes means every node of this machine: leave out --netns"))
	}
	wire, err := podnet.NewUnderlay(podnet.UnderlayConfig{StateDir: nf.stateBase()})
	if err != nil {
		return err
	}
	names, err := wire.Nodes()
	if err != nil {
		return err
	}
	done := func() {}
	if !o.dryRun {
		if done, err = lockForDown(ctx, nf, names); err != nil {
			return err
		}
	}
	changes, remarks, err := emptyNodes(ctx, nf, names, o.dryRun)
	if err != nil {
		return err
	}
	p, err := wire.Remove(ctx)
	if err != nil {
		return err
	}
	changes = append(changes, p.Changes()...)
	if !o.json {
		printRemarks(cmd.ErrOrStderr(), remarks)
	}
	if !o.dryRun {
		done()
		if err := p.Apply(ctx); err != nil {
			return err
		}
		_ = os.Remove(filepath.Join(nf.stateBase(), "netns")) // only when nothing is left in it
	}
	if o.json || o.dryRun || len(changes) == 0 || len(remarks) > 0 {
		return printDown(cmd.OutOrStdout(), changes, remarks, o)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "ok: %s made, nothing of %s is left on this machine\n", count(len(changes), "change"), count(len(names), "node"))
	return nil
}

// remindOfMembers tells who takes down this machine's own node alone that others
// stand on it.
func remindOfMembers(cmd *cobra.Command, nf *nodeFlags) {
	if names := membersOf(nf.stateBase()); len(names) > 0 && nf.netns.value == "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s made by sync --all-nodes stay (%s). To remove them: sudo toyproxy down --all-nodes\n", count(len(names), "node"), nodesList(names))
	}
}

// lockForDown takes the locks of all nodes; done gives up the claims as well.
func lockForDown(ctx context.Context, nf *nodeFlags, names []string) (done func(), err error) {
	lock, err := lockWire(ctx, nf.stateBase())
	if err != nil {
		return nil, err
	}
	f := &fleet{nf: nf, dir: nf.stateBase()}
	unlock, err := f.lockAll(ctx, names)
	if err != nil {
		lock.Unlock()
		return nil, err
	}
	return func() { unlock(true); lock.Forget() }, nil
}
