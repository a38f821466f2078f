package iptables

import (
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// Ruleset returns all rules of one family that a table asks for. randomFully
// says whether the tool can ask for fully random source ports. Pure.
//
// The order is that of effect: endpoint sets, frontends that choose from them,
// the dispatch that leads to those, and at last the jumps from the built-in
// chains.
func Ruleset(t dataplane.Table, f dataplane.Family, randomFully bool) xtables.Ruleset {
	t = t.ForFamily(f)
	r := xtables.Ruleset{Family: f}
	if len(t.Frontends) == 0 && len(t.Node.ServiceRanges) == 0 {
		return r
	}
	m := marksOf(t.Node)
	r.Chains = append(filterChains(f, t), markChains(m)...)
	for _, s := range t.Sets {
		r.Chains = append(r.Chains, pickChains(s)...)
	}
	for _, fe := range t.Frontends {
		r.Chains = append(r.Chains, frontendChains(fe, t.Node)...)
	}
	r.Chains = append(r.Chains, hairpinChains(f, t.Sets, randomFully)...)
	r.Chains = append(r.Chains, postrouting(m, randomFully)...)
	r.Chains = append(r.Chains, dispatchChains(f, t)...)
	r.Jumps = jumps(m)
	return r
}
