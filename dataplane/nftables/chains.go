package nftables

import (
	"maps"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// skeleton is what the chains that frontends share depend on.
type skeleton struct {
	facts
	shape tally
}

// has reports whether there is a set, of those that are there only with
// elements.
func (o skeleton) has(name string) bool { return o.shape[counted{what: members, name: name}] > 0 }

// classes returns the numbers of rows that frontends have in an alternative.
func (o skeleton) classes(alt int) (out []uint32) {
	for c := range o.shape {
		if c.what == class && int(c.alt) == alt {
			out = append(out, c.n)
		}
	}
	slices.Sort(out)
	return out
}

// manyFrontends are so many that chains are kept for numbers of rows that no
// frontend has just now: for each rule about a map that is added, the kernel looks
// at every element of the map, 9 ms for 100,000.
const manyFrontends = 1000

func (o skeleton) many() bool { return o.shape[counted{what: someFrontend}] >= manyFrontends }

// chosen returns the numbers of rows for which an alternative has a chain.
func (o skeleton) chosen(alt int) []uint32 {
	out := o.classes(alt)
	if alt == 0 && o.many() {
		for n := uint32(1); n <= mostClasses; n++ {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
		slices.Sort(out)
	}
	return out
}

// chains are all chains, each after those it leads to. Own are those of single
// Services.
func (o skeleton) chains(own map[string]chain) []chain {
	out := []chain{{name: refuseChain, rules: []rule{
		{isProtocol(dataplane.TCP), reset{}},
		{unreachable{}},
	}}}
	for alt := range int(dataplane.Sources) {
		for _, n := range o.chosen(alt) {
			choose := deliverBy{pick{n, uint32(alt * rowSpan)}, rowsName(n, alt)}
			out = append(out, chain{name: classChain(n, alt), rules: []rule{{choose}, {drop{}}}})
		}
	}
	out = append(out, ownChains(own)...)
	for alt := range int(dataplane.Sources) {
		if rules := o.endpointRules(alt); rules != nil {
			out = append(out, chain{name: "endpoints" + suffix(alt), rules: rules})
		}
	}
	out = append(out, o.sourceChains()...)
	stray := rule{invalid{}, isProtocol(dataplane.TCP), goTo(straysChain)}
	return append(out, o.services(), o.strays(), base(inputChain, atInput, stray), base(forwardChain, atForward, stray),
		base(preroutingChain, atPrerouting, rule{jump(servicesChain)}),
		base(outputChain, atOutput, rule{jump(servicesChain)}),
		base(postroutingChain, atPostrouting,
			rule{marked(o.mark), unmark(o.mark), masquerade{}},
			rule{translated{}, inSet{fields: []field{source, destination}, set: hairpinSet}, masquerade{}}))
}

// ownChains are the chains of single Services, each after those it leads to.
func ownChains(own map[string]chain) (out []chain) {
	if len(own) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(own))
	slices.Reverse(names) // chains to-… before sticky-…
	for _, name := range names {
		out = append(out, own[name])
	}
	return out
}

func base(name string, h hook, rules ...rule) chain { return chain{name: name, hook: h, rules: rules} }

// endpointRules lead a frontend to the chain that chooses one of as many
// endpoints as it has. The last rule is met only by packets that saw a moment
// between two transactions: they are sent again.
func (o skeleton) endpointRules(alt int) []rule {
	var rules []rule
	for _, n := range o.classes(alt) {
		if n <= mostClasses {
			rules = append(rules, rule{dialled(classSet(n, alt)), goTo(classChain(n, alt))})
		}
	}
	if m := "chains" + suffix(alt); o.has(m) {
		rules = append(rules, rule{continueAt(m)})
	}
	if rules == nil {
		return nil
	}
	return append(rules, rule{drop{}})
}

// services is where base chains lead to: it tells frontends from other
// addresses of the Service ranges, and those from everything else.
func (o skeleton) services() chain {
	c := chain{name: servicesChain, rules: []rule{
		{dialled(frontendsSet), goTo(frontendChain)},
		{inSet{fields: []field{destination}, set: clusterIPsSet}, goTo(refuseChain)},
	}}
	for _, r := range o.node.ServiceRanges {
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
func (o skeleton) sourceChains() []chain {
	all := chain{name: frontendChain}
	if o.has(restrictedSet) {
		among := inSet{fields: append(slices.Clone(frontendFields), source), set: allowedSet, not: true}
		all.rules = append(all.rules, rule{dialled(restrictedSet), among, drop{}})
	}
	if o.has(refuseSet) {
		all.rules = append(all.rules, rule{dialled(refuseSet), goTo(refuseChain)})
	}
	var out []chain
	for _, s := range o.sources {
		out = append(out, chain{name: "from-" + s.String(), rules: o.sourceRules(s)})
	}
	if len(out) > 2 {
		for _, match := range o.fromPods() {
			all.rules = append(all.rules, rule{match, goTo("from-pod")})
		}
	}
	if len(out) > 1 {
		all.rules = append(all.rules, rule{fromLocal{}, goTo("from-node")})
	}
	rest := o.sources[0]
	if len(out) > 2 {
		rest = dataplane.FromOutside
	}
	all.rules = append(all.rules, rule{goTo("from-" + rest.String())})
	return append(out, all)
}

// fromPods match packets from Pods.
func (o skeleton) fromPods() (out []statement) {
	for _, name := range o.node.PodInterfaces {
		out = append(out, fromLink(name))
	}
	if out != nil {
		return out
	}
	for _, r := range o.node.PodRanges {
		out = append(out, inRange{source, r})
	}
	return out
}

// sourceRules say what becomes of packets of a class of sources.
func (o skeleton) sourceRules(s dataplane.Source) []rule {
	var rules []rule
	if name := "refuse-" + s.String(); o.has(name) {
		rules = append(rules, rule{dialled(name), goTo(refuseChain)})
	}
	if name := "drop-" + s.String(); o.has(name) {
		rules = append(rules, rule{dialled(name), drop{}})
	}
	masq, keep := "masq-"+s.String(), "keep-"+s.String()
	switch {
	case o.has(masq):
		rules = append(rules, rule{dialled(masq), mark(o.mark)})
	case o.has(keep):
		rules = append(rules, rule{notDialled(keep), mark(o.mark)})
	case s != dataplane.FromPod:
		rules = append(rules, rule{mark(o.mark)})
	}
	for alt := 1; alt < int(dataplane.Sources); alt++ {
		if name := altSet(alt, s); o.has(name) {
			rules = append(rules, rule{dialled(name), goTo("endpoints" + suffix(alt))})
		}
	}
	if o.endpointRules(0) != nil {
		return append(rules, rule{goTo("endpoints")})
	}
	return append(rules, rule{drop{}})
}
