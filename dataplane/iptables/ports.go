package iptables

import (
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// portKey is protocol and port as digits of a tree: the protocol is one digit,
// the port four.
func portKey(p dataplane.Protocol, n uint16) string {
	return string([]byte{byte(p), byte(n >> 12), byte(n >> 8 & 15), byte(n >> 4 & 15), byte(n & 15)})
}

// portRange turns digits back into a protocol and an aligned range of ports.
func portRange(digits string) (p dataplane.Protocol, low, high uint16) {
	for i := 1; i < len(digits); i++ {
		low |= uint16(digits[i]) << (4 * (4 - i))
	}
	free := 4 * (5 - len(digits))
	return dataplane.Protocol(digits[0]), low, low | uint16(1<<free-1)
}

// portChains adds the chain, and those it leads to, in which a packet to one
// address finds its frontend by protocol and port.
func (d *dispatch) portChains(b portTree, name string, frontends []dataplane.Frontend) {
	b.dispatch, b.chainOf = d, make(map[string]string, len(frontends))
	keys := make([]string, 0, len(frontends))
	for _, fe := range frontends {
		key := portKey(fe.Protocol, fe.Port)
		keys = append(keys, key)
		b.chainOf[key] = frontendChain(fe.Key)
	}
	slices.Sort(keys)
	b.add(name, grow(keys, one))
}

// portTree builds the chains of the ports of one address, or of all NodePorts
// when the address is not valid.
type portTree struct {
	*dispatch
	at      netip.Addr
	chainOf map[string]string
	// rest are the rules for what no frontend matches.
	rest []string
	only *partial
}

// add appends the chain of a part of the tree, after those it leads to.
func (b portTree) add(name string, t tree) {
	var rules []string
	frontend := func(key string) {
		p, n, _ := portRange(key)
		rules = append(rules, rule(port(p, n), goTo(b.chainOf[key])))
	}
	if t.kids == nil {
		for _, key := range t.keys {
			frontend(key)
		}
	}
	for _, kid := range t.kids {
		if len(kid.keys) == 1 {
			frontend(kid.keys[0])
			continue
		}
		p, low, high := portRange(kid.prefix)
		sub := portChain(b.at, p, low, high)
		if !b.only.skips(kid.prefix, sub) {
			b.add(sub, kid)
		}
		rules = append(rules, rule(ports(p, low, high), goTo(sub)))
	}
	b.dispatch.chains = append(b.dispatch.chains, natChain(name, append(rules, b.rest...)...))
}
