package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// follower implements dataplane.Follower. It holds a socket, which Close gives
// back, in the namespace of the thread that asked for the first plan.
type follower struct {
	backend *Backend
	socket  *socket
	// memories are what the kernel holds of each family; nil: not known. Then
	// node are the facts that they build on.
	memories []memory
	node     dataplane.Node
	// generation is that of the kernel's rules with our last change. With any
	// other, somebody has changed something of nftables, and it may be our table.
	generation uint32
	// pending is the plan that is to be applied.
	pending dataplane.Plan
}

// Follow returns a follower of one namespace: that of the thread which makes its
// first plan. It is an io.Closer: who has no more use for it closes it.
func (b *Backend) Follow() dataplane.Follower { return &follower{backend: b} }

// Close closes the socket. The follower can be used again: it has forgotten all.
func (f *follower) Close() error {
	f.forget()
	if f.socket != nil {
		f.socket.close()
		f.socket = nil
	}
	return nil
}

// forget ends the memory.
func (f *follower) forget() { f.memories, f.pending = nil, nil }

// Plan reads our tables and returns what has to change.
func (f *follower) Plan(ctx context.Context, t dataplane.Table) (dataplane.Plan, error) {
	f.forget()
	p, err := f.backend.plan(t)
	if err != nil {
		return nil, err
	}
	if f.socket == nil {
		if f.socket, err = open(); err != nil {
			return nil, err
		}
	}
	w := &wholePlan{plan: p, follower: f, node: t.Node}
	if w.generation, err = f.socket.generation(); err != nil {
		return nil, err
	}
	if p.deltas, err = f.socket.differences(ctx, p.want); err != nil {
		return nil, err
	}
	if len(p.deltas) == 0 {
		w.remember(w.generation)
	} else {
		f.pending = w
	}
	return w, nil
}

// wholePlan is a plan for all of a table, after which the follower knows it.
type wholePlan struct {
	*plan
	follower *follower
	node     dataplane.Node
	// generation is that of the rules when they were read.
	generation uint32
}

// Apply makes the changes. What the kernel holds then is known only if nobody
// else has changed rules since they were read.
func (p *wholePlan) Apply(ctx context.Context) error {
	f := p.follower
	if len(p.deltas) == 0 {
		return nil
	}
	latest := f.pending == p
	f.forget()
	if f.socket == nil {
		return p.plan.Apply(ctx)
	}
	before := f.socket.commits
	f.socket.guard = 0
	if err := f.socket.converge(ctx, p.plan); err != nil {
		return err
	}
	now, err := f.socket.generation()
	if err != nil {
		return err
	}
	if latest && now == later(p.generation, f.socket.commits-before) {
		p.remember(now)
	}
	return nil
}

// remember notes that the kernel is as the plan wants it.
func (p *wholePlan) remember(generation uint32) {
	f := p.follower
	f.generation, f.node = generation, p.node
	f.memories = make([]memory, len(p.want))
	for i := range p.want {
		f.memories[i] = p.want[i].memory
	}
}

// PlanChange returns what has to change with some Services. It asks the kernel
// for one number: the generation of its rules.
func (f *follower) PlanChange(_ context.Context, d dataplane.Delta) (dataplane.Plan, error) {
	if f.pending != nil {
		f.forget()
		return nil, forgotten("the last plan was not applied")
	}
	if f.memories == nil {
		return nil, forgotten("no plan was applied yet, or the last one failed")
	}
	p, err := f.change(d)
	if err != nil {
		f.forget()
		return nil, err
	}
	if len(p.deltas) == 0 {
		p.remember()
	} else {
		f.pending = p
	}
	return p, nil
}

// change plans a change of all families.
func (f *follower) change(d dataplane.Delta) (*changePlan, error) {
	now, err := f.socket.generation()
	if err != nil {
		return nil, err
	}
	if now != f.generation {
		return nil, forgotten("another program has changed rules of nftables")
	}
	for _, side := range []dataplane.Table{d.Before, d.After} {
		if len(side.Frontends) > 0 && !sameNode(side.Node, f.node) {
			return nil, forgotten("facts about the node have changed")
		}
	}
	p := &changePlan{follower: f, steps: make([]step, len(f.memories)), remarks: f.backend.leftOut(d.After)}
	for i := range f.memories {
		if p.steps[i], err = f.memories[i].plan(d); err != nil {
			return nil, err
		}
		if !p.steps[i].empty() {
			p.deltas = append(p.deltas, p.steps[i].delta)
		}
	}
	return p, nil
}

func sameNode(a, b dataplane.Node) bool {
	return a.MasqueradeMark == b.MasqueradeMark && slices.Equal(a.Addrs, b.Addrs) && slices.Equal(a.PodRanges, b.PodRanges) &&
		slices.Equal(a.PodInterfaces, b.PodInterfaces) && slices.Equal(a.ServiceRanges, b.ServiceRanges)
}

// changePlan is a plan for some Services.
type changePlan struct {
	follower *follower
	// steps are by family, as the follower's memories.
	steps []step
	deltas
	remarks []string
	done    bool
}

// Remarks says what the plan leaves out.
func (p *changePlan) Remarks() []string { return p.remarks }

// remember notes that the kernel is as the plan wants it.
func (p *changePlan) remember() {
	p.done = true
	for i := range p.steps {
		p.follower.memories[i].remember(p.steps[i])
	}
}

// Apply makes the changes, if the kernel is still as it is remembered: if not,
// the error wraps dataplane.ErrForgotten. What was applied need not be again.
func (p *changePlan) Apply(ctx context.Context) error {
	f := p.follower
	switch {
	case p.done:
		return nil
	case f.pending != p:
		f.forget()
		return forgotten("this plan was overtaken by another")
	}
	f.pending = nil
	f.socket.guard = f.generation
	if err := f.socket.apply(ctx, p.deltas); err != nil {
		f.forget()
		if errors.Is(err, unix.ERESTART) {
			return fmt.Errorf("%w (%w)", forgotten("another program has changed rules of nftables"), err)
		}
		return err
	}
	f.generation = f.socket.guard
	p.remember()
	return nil
}
