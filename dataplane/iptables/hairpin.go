package iptables

import (
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// hairpinChains rewrite the source of packets that would arrive at the very
// endpoint they came from: its answer would go straight back, past the
// translation. They are a tree over the addresses of the endpoints that live
// here, and stand behind the choice of the endpoint, so that no packet pays for
// them per endpoint.
func (l *layout) hairpinChains(only *partial) []xtables.Chain {
	h := hairpin{family: l.family, masquerade: masquerade(l.with), only: only}
	h.add(hairpinChain, grow(l.locals.sorted, one))
	return h.chains
}

// masquerade is the target that rewrites the source.
func masquerade(with means) string {
	if with.randomFully {
		return "-j MASQUERADE --random-fully"
	}
	return "-j MASQUERADE"
}

// hairpin builds the chains of the tree.
type hairpin struct {
	family     dataplane.Family
	masquerade string
	only       *partial
	chains     []xtables.Chain
}

// add appends the chain of a part of the tree, after those it leads to.
func (h *hairpin) add(name string, t tree) {
	var rules []string
	endpoint := func(key string) {
		p := prefixOf(h.family, key)
		rules = append(rules, rule(from(p), to(p), h.masquerade))
	}
	if t.kids == nil {
		for _, key := range t.keys {
			endpoint(key)
		}
	}
	for _, kid := range t.kids {
		if len(kid.keys) == 1 {
			endpoint(kid.keys[0])
			continue
		}
		p := prefixOf(h.family, kid.prefix)
		sub := hairpinPrefixChain(p)
		if !h.only.skips(kid.prefix, sub) {
			h.add(sub, kid)
		}
		rules = append(rules, rule(from(p), to(p), goTo(sub)))
	}
	h.chains = append(h.chains, natChain(name, rules...))
}
