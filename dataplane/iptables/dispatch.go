package iptables

import (
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// dispatch builds the chains that lead a packet to the chain of its frontend.
type dispatch struct {
	*layout
	// nodeAddrs are the addresses that NodePorts answer on.
	nodeAddrs []netip.Addr
	only      *partial
	chains    []xtables.Chain
}

// dispatchChains are the chains from TOY-SERVICES to the frontends, a chain
// before those that lead to it; or only those parts of the trees over addresses
// and NodePorts that are asked for.
func (l *layout) dispatchChains(addresses, ports *partial) []xtables.Chain {
	d := dispatch{layout: l, only: addresses}
	if len(l.nodePorts) > 0 {
		d.nodeAddrs = l.node.Addrs
		if !ports.skips("", nodePortsChain) {
			d.portChains(portTree{only: ports}, nodePortsChain, l.nodePorts)
		}
	}
	d.root(grow(l.keys, d.size))
	return d.chains
}

// size is the number of entries that an address makes in a list: its frontends,
// or one when they have a chain of their own.
func (d *dispatch) size(key string) int {
	if n := len(d.at[key]); n >= 1 && n <= bucket {
		return n
	}
	return 1
}

// root adds TOY-SERVICES. It calls its parts, where they continue in theirs: so
// a packet that falls out of any of them comes back here, to meet the rules for
// addresses that no frontend has.
func (d *dispatch) root(t tree) {
	rules := append(premarks(d.node), d.entries(t, jump)...)
	for _, r := range d.node.ServiceRanges {
		rules = append(rules, rule(to(r), jump(dropChain)))
	}
	d.chains = append(d.chains, natChain(servicesChain, rules...))
}

// part adds the chain of a part of the tree.
func (d *dispatch) part(t tree) string {
	name := prefixChain(prefixOf(d.family, t.prefix))
	if d.only.skips(t.prefix, name) {
		return name
	}
	rules := d.entries(t, goTo)
	d.chains = append(d.chains, natChain(name, rules...))
	return name
}

// entries are the rules that lead on from a tree: first to frontends and parts,
// then for the ports that those addresses do not have.
func (d *dispatch) entries(t tree, lead func(string) string) []string {
	var rules, last []string
	take := func(key string, list bool) {
		r, l := d.address(key, list, lead)
		rules, last = append(rules, r...), append(last, l...)
	}
	if t.kids == nil {
		for _, key := range t.keys {
			take(key, true)
		}
	}
	for _, kid := range t.kids {
		if len(kid.keys) == 1 {
			take(kid.keys[0], false)
			continue
		}
		rules = append(rules, rule(to(prefixOf(d.family, kid.prefix)), lead(d.part(kid))))
	}
	return append(rules, last...)
}

// address are the rules for one address: its frontends and, apart, what becomes
// of its other ports. In a list frontends stand one by one; elsewhere more than
// one has a chain of the address, so that no chain has many rules.
func (d *dispatch) address(key string, list bool, lead func(string) string) (rules, last []string) {
	match := prefixOf(d.family, key)
	frontends := d.at[key]
	known := len(frontends) > 0
	if len(frontends) > bucket || len(frontends) > 1 && !list {
		name := addressChain(match.Addr())
		if !d.only.skips(key, name) {
			d.portChains(portTree{at: match.Addr(), rest: d.otherPorts(match.Addr(), known, goTo)}, name, frontends)
		}
		return []string{rule(to(match), lead(name))}, nil
	}
	for _, fe := range frontends {
		rules = append(rules, rule(to(match), port(fe.Protocol, fe.Port), lead(frontendChain(fe.Key))))
	}
	for _, action := range d.otherPorts(match.Addr(), known, lead) {
		last = append(last, rule(to(match), action))
	}
	return rules, last
}

// otherPorts is what happens to packets to an address on a port that it does not
// have: a node address may have it as a NodePort, a known address in a Service
// range refuses, at any other address it is none of our business.
func (d *dispatch) otherPorts(a netip.Addr, known bool, lead func(string) string) []string {
	refuses := known && contains(d.node.ServiceRanges, a)
	nodePorts := slices.Contains(d.nodeAddrs, a)
	switch {
	case nodePorts && refuses:
		return []string{jump(nodePortsChain), jump(refuseChain)}
	case nodePorts:
		return []string{lead(nodePortsChain)}
	case refuses:
		return []string{jump(refuseChain)}
	}
	return nil
}
