package ipvs

import (
	"iter"
	"maps"
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// ground is what a packet walks through: all of one family, wanted or held.
type ground struct {
	family dataplane.Family
	rules  xtables.Rules
	// sets hold entries without the mark that packets get by them, and that mark.
	sets    [setKinds]map[entry]uint32
	servers map[serverID]*virtualServer
	// routes and inbound are the addresses that routes make local: for all, and
	// for what bears the mark of a policy.
	routes, inbound map[netip.Addr]bool
	policies        []policy
}

// ground returns what is wanted.
func (t target) ground() ground {
	g := ground{family: t.family, rules: t.rules.Rules(), servers: t.index(),
		routes: map[netip.Addr]bool{}, inbound: map[netip.Addr]bool{}, policies: t.policies()}
	for k, m := range t.sets {
		g.fill(setKind(k), maps.Keys(m))
	}
	for e := range t.sets[addresses] {
		g.routes[e.addr] = true
	}
	for e := range t.sets[arrivals] {
		g.inbound[e.addr] = true
	}
	return g
}

// ground returns what is held, with the rules that were read beside it.
func (o observed) ground(rules xtables.Rules) ground {
	g := ground{family: o.family, rules: rules, servers: o.servers,
		routes: map[netip.Addr]bool{}, inbound: map[netip.Addr]bool{}, policies: o.policies}
	for k, held := range o.sets {
		if held != nil {
			g.fill(setKind(k), maps.Keys(held.entries))
		}
	}
	for a, r := range o.routes {
		g.routes[a] = r.loopback
	}
	for a, r := range o.inbound {
		g.inbound[a] = r.loopback
	}
	return g
}

// fill makes a set of entries.
func (g *ground) fill(k setKind, entries iter.Seq[entry]) {
	g.sets[k] = map[entry]uint32{}
	for e := range entries {
		g.sets[k][e.place()] = e.mark
	}
}
