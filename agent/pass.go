package agent

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Pass is what there is to do after some events: a plan, which is to be applied
// before the next one is made. Its Changes are those of the rules.
type Pass struct {
	dataplane.Plan
	// Whole says that all of the kernel was compared with the whole table.
	Whole bool
	// Touched names the Services whose frontends, endpoints or problems may be
	// others than before; when the node has changed, all Services.
	Touched []types.NamespacedName
	// Flows is the removal of stale flows, which Apply fills in once the rules
	// stand; it has no part in Changes.
	Flows   dataplane.Plan
	tracker *Tracker
	// delta is the change of the table, unless the pass is whole.
	delta dataplane.Delta
	sweep sweep
}

// FollowedFlows is Flows that can look at what a change makes stale alone, as
// conntrack.Cleaner does.
type FollowedFlows interface {
	Flows
	// PlanChange is Plan after a change of a table whose stale flows were removed.
	// Now is the table with the change. An error that wraps
	// dataplane.ErrForgotten says that Plan is needed.
	PlanChange(ctx context.Context, d dataplane.Delta, now dataplane.View) (dataplane.Plan, error)
}

// sweep is how far a pass looks for stale flows.
type sweep uint8

const (
	sweepNothing sweep = iota
	// sweepChange will do when nothing was left before the change.
	sweepChange
	sweepAll
)

// sweepAfter says how far to look after a change, and notes that it is to be done.
func (t *Tracker) sweepAfter(d dataplane.Delta) sweep {
	switch {
	case t.flows == nil:
		return sweepNothing
	case t.unswept:
		return sweepAll
	case d.Empty():
		return sweepNothing
	}
	t.unswept = true
	return sweepChange
}

// Apply makes the changes, and then removes the flows that are stale. What fails
// is done by the next pass. Flows that cannot be removed do not undo the rules.
func (p *Pass) Apply(ctx context.Context) error {
	t := p.tracker
	if p.sweep == sweepNothing || t.flows == nil {
		return p.Plan.Apply(ctx)
	}
	table := p.delta.After
	if p.sweep == sweepAll {
		table = t.ledger.Table()
	}
	expected := t.flows.Expect(ctx, table)
	if err := p.Plan.Apply(ctx); err != nil {
		return errors.Join(expected, err)
	}
	err := errors.Join(expected, p.removeFlows(ctx, table))
	t.unswept = err != nil
	return err
}

// removeFlows removes what is stale now that the rules stand.
func (p *Pass) removeFlows(ctx context.Context, table dataplane.Table) error {
	plan, err := p.planFlows(ctx, table)
	if err != nil {
		return err
	}
	p.Flows = plan
	return plan.Apply(ctx)
}

func (p *Pass) planFlows(ctx context.Context, table dataplane.Table) (dataplane.Plan, error) {
	t := p.tracker
	if p.sweep == sweepAll {
		return staleFlows(t.flows.Plan(ctx, table))
	}
	plan, err := t.flows.PlanChange(ctx, p.delta, t.ledger)
	if errors.Is(err, dataplane.ErrForgotten) {
		return staleFlows(t.flows.Plan(ctx, t.ledger.Table()))
	}
	return staleFlows(plan, err)
}

// Remarks lists what the rules and the flows have to tell.
func (p *Pass) Remarks() []string { return dataplane.Plans{p.Plan, p.Flows}.Remarks() }
