package iptables

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipset"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

var _ dataplane.Incremental = (*Backend)(nil)

// Follow returns a Follower with nothing in its memory. Its plans of changes
// name only the chains of the Services that change and those on the way to their
// frontends, and read nothing of the kernel.
func (b *Backend) Follow() dataplane.Follower { return &follower{backend: b} }

// follower implements dataplane.Follower.
type follower struct {
	backend *Backend
	// known is what the kernel holds; nil when that is not known.
	known *memory
	// pending is the plan after which it will be known.
	pending *followedPlan
}

// memory is what the kernel holds after a plan, as far as changes depend on it:
// the trees, which lead to what many Services have. Chains of Services follow
// from what a change says that they had.
type memory struct {
	engine   xtables.Engine
	with     means
	families []*familyMemory
	leftOut  []dataplane.Family
}

// familyMemory is the part of one family.
type familyMemory struct {
	*layout
	// trees are the chains of all trees with their rules.
	trees map[string][]string
}

// remember returns the rules of a table of one family, and what to know of them.
func remember(t dataplane.Table, f dataplane.Family, with means) (xtables.Ruleset, *familyMemory) {
	m := &familyMemory{layout: newLayout(t, f, with)}
	var r xtables.Ruleset
	r, m.trees = m.ruleset(t)
	return r, m
}

// leaveOut forgets families that the kernel lacks.
func (m *memory) leaveOut(families []dataplane.Family) {
	m.leftOut = families
	m.families = slices.DeleteFunc(m.families, func(f *familyMemory) bool { return slices.Contains(families, f.family) })
}

// Plan plans a whole pass.
func (f *follower) Plan(ctx context.Context, t dataplane.Table) (dataplane.Plan, error) {
	f.known, f.pending = nil, nil
	p, m, err := f.backend.whole(ctx, t)
	if err != nil {
		return nil, err
	}
	return f.follow(p, m), nil
}

// PlanChange plans the way from one table to the next by what is remembered.
func (f *follower) PlanChange(ctx context.Context, d dataplane.Delta) (dataplane.Plan, error) {
	m := f.known
	// The memory is changed in place: until the plan has been applied, and after
	// any error, there is none.
	f.known, f.pending = nil, nil
	if m == nil {
		return nil, fmt.Errorf("change of iptables rules: %w", dataplane.ErrForgotten)
	}
	if err := f.learn(ctx, m, d.After.Sets); err != nil {
		return nil, err
	}
	var deltas []xtables.Delta
	for _, part := range m.families {
		delta, err := part.change(d.Before.ForFamily(part.family), d.After.ForFamily(part.family))
		if err != nil {
			return nil, fmt.Errorf("change of iptables rules: %w: %w", dataplane.ErrForgotten, err)
		}
		deltas = append(deltas, delta)
	}
	sets := ipset.Step(f.backend.clientSets(d.Before, m.with, m.leftOut), f.backend.clientSets(d.After, m.with, m.leftOut))
	return f.follow(dataplane.Plans{sets.Before, xtables.BlindPlan(m.engine, deltas...), sets.After}, m), nil
}

// learn finds out where clients are remembered when the first sets ask for it.
func (f *follower) learn(ctx context.Context, m *memory, sets []dataplane.EndpointSet) error {
	where, lacking, err := f.backend.memory(ctx, m.engine, sets)
	if err != nil || lacking == nil {
		return err
	}
	m.with.memory = where
	for _, part := range m.families {
		part.with.memory = where
	}
	return nil
}

// follow makes plans ones that are followed. Those that change nothing need not
// be applied.
func (f *follower) follow(p dataplane.Plans, m *memory) dataplane.Plan {
	out := &followedPlan{Plans: p, follower: f, then: m}
	if p.Empty() {
		f.known = m
		return out
	}
	f.pending = out
	return out
}

// followedPlan is plans after which a follower knows what the kernel holds.
type followedPlan struct {
	dataplane.Plans
	follower *follower
	then     *memory
}

// Apply applies the plans. One that was overtaken by another ends the memory.
func (p *followedPlan) Apply(ctx context.Context) error {
	f := p.follower
	empty, current := f.pending == nil && f.known == p.then, f.pending == p
	f.known, f.pending = nil, nil
	err := p.Plans.Apply(ctx)
	if err == nil && (current || empty) {
		f.known = p.then
	}
	return err
}

// change moves the memory to the table after a change and returns what that
// means for the rules. Both sides are of the family.
func (m *familyMemory) change(before, after dataplane.Table) (xtables.Delta, error) {
	if len(before.Frontends)+len(after.Frontends)+len(before.Sets)+len(after.Sets) == 0 {
		return xtables.Delta{Family: m.family}, nil
	}
	was, shared, none := m.serviceChains(before), m.shared(), m.empty()
	t, err := m.move(before, after)
	if err != nil {
		return xtables.Delta{}, err
	}
	now := m.shared()
	if none || m.empty() || len(now) != len(shared) {
		return xtables.Delta{}, fmt.Errorf("the first frontend comes, or the last goes")
	}
	was, is := append(was, shared...), append(m.serviceChains(after), now...)
	built := m.rebuilt(t)
	return xtables.Between(m.family, append(was, m.replace(built)...), append(is, built...)), nil
}

// shared are the chains beside the trees that depend on what frontends there are.
func (m *familyMemory) shared() []xtables.Chain {
	strays, _ := m.strays()
	return append(strays, m.forward())
}

// rebuilt are the chains of trees that a change may change.
func (m *familyMemory) rebuilt(t touch) []xtables.Chain {
	var out []xtables.Chain
	if len(t.locals) > 0 {
		out = m.hairpinChains(&partial{t.locals, m.trees})
	}
	if len(t.addresses)+len(t.ports) > 0 {
		out = append(out, m.dispatchChains(&partial{t.addresses, m.trees}, &partial{t.ports, m.trees})...)
	}
	return out
}

// replace puts chains into the memory of the trees, takes out those to which
// nothing leads any more, and returns what was there before of both. In a tree
// one chain leads to each: what a chain no longer leads to, and no other that was
// built anew, is gone with all below it.
func (m *familyMemory) replace(built []xtables.Chain) []xtables.Chain {
	led := map[string]bool{}
	for _, c := range built {
		led[c.Name] = true
		for _, to := range m.below(c.Rules) {
			led[to] = true
		}
	}
	var was []xtables.Chain
	for _, c := range built {
		if rules, there := m.trees[c.Name]; there {
			was = append(was, natChain(c.Name, rules...))
			was = append(was, m.unled(m.below(rules), led)...)
		}
	}
	if len(m.nodePorts) == 0 {
		was = append(was, m.unled([]string{nodePortsChain}, led)...)
	}
	for _, c := range built {
		m.trees[c.Name] = c.Rules
	}
	return was
}

// unled takes chains out of the memory, with those below them.
func (m *familyMemory) unled(names []string, led map[string]bool) []xtables.Chain {
	var out []xtables.Chain
	for _, name := range names {
		rules, there := m.trees[name]
		if !there || led[name] {
			continue
		}
		out = append(out, natChain(name, rules...))
		below := m.below(rules)
		delete(m.trees, name)
		out = append(out, m.unled(below, led)...)
	}
	return out
}

// below lists the chains of trees that rules lead to. The chain of NodePorts is
// not one of them: the rules of all addresses of the node lead to it.
func (m *familyMemory) below(rules []string) []string {
	var out []string
	for _, r := range rules {
		to := r[strings.LastIndexByte(r, ' ')+1:]
		if _, there := m.trees[to]; there && to != nodePortsChain {
			out = append(out, to)
		}
	}
	return out
}
