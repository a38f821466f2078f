package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster/workload"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/pods"
)

// control adds the Pods that the workloads of an input want of a node. With dry
// nothing of what is decided is written down.
func control(ctx context.Context, sc scope, runtime *pods.Runtime, in *agent.Input, node agent.Node, dry bool) (agent.Decision, error) {
	keeper := workload.Open(sc.stateDir)
	if dry {
		keeper = workload.OpenDry(sc.stateDir)
	}
	seen, _ := runtime.Survey(ctx) // damaged files are told elsewhere
	c := agent.Control{Workloads: keeper, Now: time.Now()}
	if !dry {
		c.Suffix = suffix
	}
	d, err := c.Decide(ctx, agent.Setting{Input: *in, Node: node}, seen)
	in.Objects.Pods = slices.Concat(in.Objects.Pods, d.Pods)
	in.Problems = slices.Concat(in.Problems, d.Problems)
	return d, err
}

// goOn makes further passes until the workloads are as they are to be, or nothing
// happens any more. It returns all of them as one.
func goOn(cmd *cobra.Command, first *nodePlan, o syncOptions, again func() (*nodePlan, error)) (*nodePlan, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	p := first
	for p.decision.Acts > 0 || p.decision.Rolling > 0 {
		next, err := again()
		if err != nil {
			return p, err
		}
		idle := next.Empty()
		if idle && (next.decision.Rolling == 0 || next.decision.Again.IsZero()) {
			break
		}
		if err := next.Apply(ctx); err != nil {
			return p.then(next), err
		}
		p = p.then(next)
		if !idle {
			continue
		}
		if err := sleepUntil(ctx, next.decision.Again); err != nil {
			return p, fmt.Errorf("the workloads are not as they are to be after %s (--timeout): %w", o.timeout, err)
		}
	}
	return p, nil
}

// sleepUntil waits until a time, or fails when the context ends before.
func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return errors.New("some Pods are not available")
		}
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// then is the pass that does what both did, one after the other.
func (p *nodePlan) then(next *nodePlan) *nodePlan {
	both := *next
	plan := *next.Plan
	both.Plan = &plan
	plan.Create = dataplane.Plans{p.Create, next.Create}
	plan.Rules = dataplane.Plans{p.Rules, next.Rules}
	plan.Leftovers = dataplane.Plans{p.Leftovers, next.Leftovers}
	plan.Flows = dataplane.Plans{p.Flows, next.Flows}
	plan.Delete = dataplane.Plans{p.Delete, next.Delete}
	return &both
}
