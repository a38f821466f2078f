package ipvs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

var _ dataplane.Incremental = (*Backend)(nil)

// Follow returns a follower that remembers nothing yet. Like its backend it
// belongs to one goroutine.
func (b *Backend) Follow() dataplane.Follower { return &follower{backend: b} }

// follower is a backend with a memory. It implements dataplane.Follower.
type follower struct {
	backend *Backend
	// memory is what is known, by family; nil if nothing is.
	memory []*memory
	node   dataplane.Node
	// turn is the number of the last plan: only that one may bring a memory.
	turn int
}

// Plan plans a whole pass.
func (f *follower) Plan(ctx context.Context, table dataplane.Table) (dataplane.Plan, error) {
	f.turn, f.memory = f.turn+1, nil
	plans, sides, err := f.backend.plan(ctx, table)
	if err != nil {
		return nil, err
	}
	return f.follow(plans, func(used sources) {
		f.node = table.Node
		f.memory = remember(sides, used)
	}), nil
}

// PlanChange plans what the delta changes, out of memory. Rules and parameters do
// not depend on single Services. What drains is looked at again each time, for
// nobody else tells when it has ended.
func (f *follower) PlanChange(ctx context.Context, d dataplane.Delta) (dataplane.Plan, error) {
	known := f.memory
	f.turn, f.memory = f.turn+1, nil
	if known == nil {
		return nil, dataplane.ErrForgotten
	}
	if d.Empty() {
		d.Before.Node, d.After.Node = f.node, f.node
	}
	if !sameNode(d.Before.Node, f.node) || !sameNode(d.After.Node, f.node) {
		return nil, fmt.Errorf("the node has changed: %w", dataplane.ErrForgotten)
	}
	changes, err := f.backend.changes(ctx, known, d)
	if err != nil {
		return nil, err
	}
	var sides []*side
	for _, c := range changes {
		sides = append(sides, c.side)
	}
	first, last := compare(sides, sourceHints(f.node))
	return f.follow(dataplane.Plans{first, last}, func(used sources) {
		for _, c := range changes {
			c.commit(used)
		}
		f.memory = known
	}), nil
}

// follow returns a plan whose success is remembered.
func (f *follower) follow(p dataplane.Plans, remember func(sources)) dataplane.Plan {
	if dataplane.Empty(p) {
		remember(nil)
		return p
	}
	return &followed{Plans: p, follower: f, turn: f.turn, remember: remember}
}

// followed is a plan that tells its follower how it went.
type followed struct {
	dataplane.Plans
	follower *follower
	turn     int
	remember func(sources)
}

// Apply applies the plan. What is left out on purpose is an error, but the kernel
// is as it was planned, and that is remembered. Plans that are not the last, or
// that are applied twice, spoil what is remembered.
func (p *followed) Apply(ctx context.Context) error {
	last := p.turn == p.follower.turn
	p.follower.turn, p.follower.memory = p.follower.turn+1, nil
	var used sources
	for i, part := range p.Plans {
		err := part.Apply(ctx)
		if ph, ok := part.(*phase); ok && len(ph.used) > 0 {
			used = ph.used
		}
		if err == nil {
			continue
		}
		if i == len(p.Plans)-1 && last && errors.As(err, &notServed{}) {
			p.remember(used)
		}
		return err
	}
	if last {
		p.remember(used)
	}
	return nil
}

// sameNode reports whether two nodes are the same in all that tables tell.
func sameNode(a, b dataplane.Node) bool {
	return slices.Equal(a.PodRanges, b.PodRanges) && slices.Equal(a.PodInterfaces, b.PodInterfaces) &&
		slices.Equal(a.ServiceRanges, b.ServiceRanges) && slices.Equal(a.Addrs, b.Addrs) && a.MasqueradeMark == b.MasqueradeMark
}
