package iptables

import (
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// means are what the rules may use of the kernel and of its tools. The zero
// means are those of a kernel that has everything, and a tool that lacks options.
type means struct {
	// randomFully: the tool can ask for fully random source ports.
	randomFully bool
	// memory is where the clients of sets with affinity are remembered.
	memory memory
}

// Ruleset returns all rules of one family that a table asks for, for a kernel
// that has everything. randomFully says whether the tool can ask for fully random
// source ports. Pure.
func Ruleset(t dataplane.Table, f dataplane.Family, randomFully bool) xtables.Ruleset {
	return ruleset(t, f, means{randomFully: randomFully})
}

// ruleset returns all rules of one family that a table asks for.
//
// The order is that of effect: endpoint sets, frontends that choose from them,
// the dispatch that leads to those, and at last the jumps from the built-in
// chains.
func ruleset(t dataplane.Table, f dataplane.Family, with means) xtables.Ruleset {
	t = t.ForFamily(f)
	r := xtables.Ruleset{Family: f}
	if len(t.Frontends) == 0 && len(t.Node.ServiceRanges) == 0 {
		return r
	}
	m := marksOf(t.Node)
	r.Chains = append(filterChains(f, t), markChains(m)...)
	for _, s := range t.Sets {
		r.Chains = append(r.Chains, pickChains(s, with.memory)...)
	}
	for _, fe := range t.Frontends {
		r.Chains = append(r.Chains, frontendChains(fe, t.Node)...)
	}
	r.Chains = append(r.Chains, hairpinChains(f, t.Sets, with.randomFully)...)
	r.Chains = append(r.Chains, postrouting(m, with.randomFully)...)
	r.Chains = append(r.Chains, dispatchChains(f, t)...)
	r.Jumps = jumps(m)
	return r
}
