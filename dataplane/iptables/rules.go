package iptables

import (
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// means are what the rules may use of the kernel and of its tools. The zero
// means are those of a kernel that has everything, and a tool that lacks options.
type means struct {
	// randomFully: the tool can ask for fully random source ports.
	randomFully bool
	// memory is where the clients of sets with affinity are remembered.
	memory clientMemory
	// liberal: connection tracking knows no stray segments.
	liberal bool
}

// Ruleset returns all rules of one family that a table asks for, for a kernel
// that has everything. randomFully says whether the tool can ask for fully random
// source ports. Pure.
func Ruleset(t dataplane.Table, f dataplane.Family, randomFully bool) xtables.Ruleset {
	return ruleset(t, f, means{randomFully: randomFully})
}

// ruleset returns all rules of one family that a table asks for.
func ruleset(t dataplane.Table, f dataplane.Family, with means) xtables.Ruleset {
	t = t.ForFamily(f)
	r, _ := newLayout(t, f, with).ruleset(t)
	return r.Made()
}

// ruleset returns the rules for the table that the layout is of, and which of
// the chains are those of trees, with their rules.
//
// The order is that of effect: endpoint sets, frontends that choose from them,
// the dispatch that leads to those, and at last the jumps from the built-in
// chains.
func (l *layout) ruleset(t dataplane.Table) (r xtables.Ruleset, trees map[string][]string) {
	r, trees = xtables.Ruleset{Family: l.family}, map[string][]string{}
	if l.empty() {
		return r, trees
	}
	m := marksOf(l.node)
	r.Chains = append(l.filterChains(), markChains(m)...)
	r.Chains = append(r.Chains, l.serviceChains(t)...)
	hairpins, dispatches := l.hairpinChains(nil), l.dispatchChains(nil, nil)
	r.Chains = slices.Concat(r.Chains, hairpins, postrouting(m, l.with), dispatches)
	r.Jumps = jumps(m)
	chains, leads := l.strays()
	r.Chains, r.Jumps = append(chains, r.Chains...), append(leads, r.Jumps...)
	for _, c := range slices.Concat(hairpins, dispatches) {
		trees[c.Name] = c.Rules
	}
	return r, trees
}

// serviceChains are the chains of Services: they depend on nothing but their own
// frontends and sets, and on the node.
//
// A set to which one rule leads, the last of its frontend, needs no chain of its
// own: its choice stands in the frontend's. Most Services are so, and have half
// the chains that way.
func (l *layout) serviceChains(t dataplane.Table) []xtables.Chain {
	bodies := make([][]target, len(t.Frontends))
	leads := make(map[string]int, len(t.Sets))
	for i, fe := range t.Frontends {
		bodies[i] = frontendBody(fe, l.node)
		for _, to := range bodies[i] {
			if leads[to.set]++; to.match != "" {
				leads[to.set]++
			}
		}
	}
	choices := make(map[string]*dataplane.EndpointSet, len(t.Sets))
	out := make([]xtables.Chain, 0, len(t.Frontends))
	for i, s := range t.Sets {
		if leads[s.Name] == 1 && simple(s) {
			choices[s.Name] = &t.Sets[i]
			continue
		}
		out = append(out, pickChains(s, l.with.memory)...)
	}
	for i, fe := range t.Frontends {
		body := bodies[i]
		last := choices[body[len(body)-1].set]
		if last != nil {
			body = body[:len(body)-1]
		}
		out = append(out, frontendChains(fe, body, last)...)
	}
	return out
}
