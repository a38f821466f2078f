package nftables

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// allChains are the chains, each after those it leads to.
func (b *builder) allChains() []chain {
	out := []chain{{name: refuseChain, rules: []rule{
		{isProtocol(dataplane.TCP), reset{}},
		{unreachable{}},
	}}}
	for alt := range b.counts {
		for _, n := range slices.Sorted(maps.Keys(b.counts[alt])) {
			choose := deliverBy{pick{uint32(n), uint32(alt * rowSpan)}, endpointsMap}
			out = append(out, chain{name: classChain(n, alt), rules: []rule{{choose}, {drop{}}}})
		}
	}
	names := slices.Sorted(maps.Keys(b.chains))
	slices.Reverse(names) // chains to-… before sticky-…
	for _, name := range names {
		out = append(out, b.chains[name])
	}
	for alt := range b.counts {
		if rules := b.endpointRules(alt); rules != nil {
			out = append(out, chain{name: "endpoints" + suffix(alt), rules: rules})
		}
	}
	out = append(out, b.sourceChains()...)
	return append(out, b.services(), base(preroutingChain, atPrerouting, rule{jump(servicesChain)}),
		base(outputChain, atOutput, rule{jump(servicesChain)}),
		base(postroutingChain, atPostrouting,
			rule{marked(b.mark), unmark(b.mark), masquerade{}},
			rule{translated{}, inSet{fields: []field{source, destination}, set: hairpinSet}, masquerade{}}))
}

func base(name string, h hook, rules ...rule) chain { return chain{name: name, hook: h, rules: rules} }

// endpointRules lead a frontend to the chain that chooses one of as many
// endpoints as it has. The last rule is met only by packets that saw a moment
// between two transactions: they are sent again.
func (b *builder) endpointRules(alt int) []rule {
	var rules []rule
	for _, n := range slices.Sorted(maps.Keys(b.counts[alt])) {
		if n <= mostClasses {
			rules = append(rules, rule{dialled(classSet(n, alt)), goTo(classChain(n, alt))})
		}
	}
	if m := "chains" + suffix(alt); b.has(m) {
		rules = append(rules, rule{continueAt(m)})
	}
	if rules == nil {
		return nil
	}
	return append(rules, rule{drop{}})
}

// services is where base chains lead to: it tells frontends from other
// addresses of the Service ranges, and those from everything else.
func (b *builder) services() chain {
	c := chain{name: servicesChain, rules: []rule{
		{dialled(frontendsSet), goTo(frontendChain)},
		{inSet{fields: []field{destination}, set: clusterIPsSet}, goTo(refuseChain)},
	}}
	for _, r := range b.table.Node.ServiceRanges {
		if r.Bits() == 0 {
			c.rules = append(c.rules, rule{drop{}})
			break
		}
		c.rules = append(c.rules, rule{inRange{destination, r}, drop{}})
	}
	return c
}

// sourceChains are the chain that all packets to frontends go through, after
// one for each class of sources.
func (b *builder) sourceChains() []chain {
	all := chain{name: frontendChain}
	if b.has(restrictedSet) {
		among := inSet{fields: append(slices.Clone(frontendFields), source), set: allowedSet, not: true}
		all.rules = append(all.rules, rule{dialled(restrictedSet), among, drop{}})
	}
	if b.has(refuseSet) {
		all.rules = append(all.rules, rule{dialled(refuseSet), goTo(refuseChain)})
	}
	var out []chain
	for _, s := range b.sources {
		out = append(out, chain{name: "from-" + s.String(), rules: b.sourceRules(s)})
	}
	if len(out) > 2 {
		for _, match := range b.fromPods() {
			all.rules = append(all.rules, rule{match, goTo("from-pod")})
		}
	}
	if len(out) > 1 {
		all.rules = append(all.rules, rule{fromLocal{}, goTo("from-node")})
	}
	rest := b.sources[0]
	if len(out) > 2 {
		rest = dataplane.FromOutside
	}
	all.rules = append(all.rules, rule{goTo("from-" + rest.String())})
	return append(out, all)
}

// fromPods match packets from Pods.
func (b *builder) fromPods() (out []statement) {
	for _, name := range b.table.Node.PodInterfaces {
		out = append(out, fromLink(name))
	}
	if out != nil {
		return out
	}
	for _, r := range b.table.Node.PodRanges {
		out = append(out, inRange{source, r})
	}
	return out
}

// sourceRules say what becomes of packets of a class of sources.
func (b *builder) sourceRules(s dataplane.Source) []rule {
	var rules []rule
	if name := "refuse-" + s.String(); b.has(name) {
		rules = append(rules, rule{dialled(name), goTo(refuseChain)})
	}
	if name := "drop-" + s.String(); b.has(name) {
		rules = append(rules, rule{dialled(name), drop{}})
	}
	masq, keep := "masq-"+s.String(), "keep-"+s.String()
	switch {
	case b.has(masq):
		rules = append(rules, rule{dialled(masq), mark(b.mark)})
	case b.has(keep):
		rules = append(rules, rule{notDialled(keep), mark(b.mark)})
	case s != dataplane.FromPod:
		rules = append(rules, rule{mark(b.mark)})
	}
	for alt := 1; alt < int(dataplane.Sources); alt++ {
		if name := fmt.Sprintf("alt%d-%s", alt, s); b.has(name) {
			rules = append(rules, rule{dialled(name), goTo("endpoints" + suffix(alt))})
		}
	}
	if b.endpointRules(0) != nil {
		return append(rules, rule{goTo("endpoints")})
	}
	return append(rules, rule{drop{}})
}
