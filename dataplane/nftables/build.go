package nftables

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// mostClasses is the most endpoints for which frontends are in a set of those
// that have as many; frontends with more are in a map. A packet tries one set
// after the other.
const mostClasses = 32

// builder turns a table into a layout.
type builder struct {
	family dataplane.Family
	table  dataplane.Table
	// sources are the classes of sources that can be told apart.
	sources []dataplane.Source
	// mark is the bit that notes that a source is to be rewritten.
	mark uint32
	sets map[string]*set
	// counts are the numbers of rows of frontends, by alternative.
	counts [dataplane.Sources]map[int]bool
	// chains are those of endpoints and of sets with affinity, by name.
	chains map[string]chain
}

// build returns all that our table of one family has to hold. Pure.
func build(t dataplane.Table, f dataplane.Family) layout {
	t = t.ForFamily(f)
	if len(t.Frontends) == 0 && len(t.Node.ServiceRanges) == 0 {
		return layout{family: f}
	}
	b := builder{family: f, table: t, sources: sourcesOf(t), mark: t.Node.Marks().Masquerade,
		sets: map[string]*set{}, chains: map[string]chain{}}
	for i := range b.counts {
		b.counts[i] = map[int]bool{}
	}
	b.declare(frontendsSet, frontendKeys, "addresses and ports that clients dial")
	b.declare(clusterIPsSet, addresses, "on other ports these refuse")
	b.declare(endpointsMap, endpointRows, "the endpoints of each frontend, numbered")
	b.declare(hairpinSet, pairs, "endpoints here, which may reach themselves")
	frontends := expand(t)
	b.sets[frontendsSet].elements = make([]element, 0, len(frontends))
	b.sets[endpointsMap].elements = make([]element, 0, b.rows(frontends))
	for _, fe := range frontends {
		b.frontend(fe)
	}
	b.hairpin()
	return layout{family: f, sets: b.sortedSets(), chains: b.allChains()}
}

// sourcesOf returns the classes of sources that packets are told apart by. Where
// nothing tells Pods, what is outside counts as one, and the node only where it
// is treated differently.
func sourcesOf(t dataplane.Table) []dataplane.Source {
	n := t.Node
	switch {
	case len(n.PodInterfaces) == 0 && everything(n.PodRanges):
		return []dataplane.Source{dataplane.FromPod}
	case slices.Contains(n.PodInterfaces, "+"):
		return []dataplane.Source{dataplane.FromPod, dataplane.FromNode}
	case len(n.PodInterfaces)+len(n.PodRanges) > 0:
		return []dataplane.Source{dataplane.FromPod, dataplane.FromNode, dataplane.FromOutside}
	}
	for _, fe := range t.Frontends {
		if fe.Routes[dataplane.FromNode] != fe.Routes[dataplane.FromPod] {
			return []dataplane.Source{dataplane.FromPod, dataplane.FromNode}
		}
	}
	return []dataplane.Source{dataplane.FromPod}
}

// rows is about how many rows the frontends need.
func (b *builder) rows(frontends []dataplane.Frontend) (n int) {
	for _, fe := range frontends {
		if s, ok := b.table.Set(fe.Routes[b.sources[0]].Set); ok {
			n += len(s.Endpoints)
		}
	}
	return n
}

// everything reports whether one of the ranges holds all addresses.
func everything(ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Bits() == 0 })
}

// expand replaces each NodePort by one frontend an address of the node, unless
// another frontend has that address and port for itself.
func expand(t dataplane.Table) []dataplane.Frontend {
	out := make([]dataplane.Frontend, 0, len(t.Frontends))
	for _, fe := range t.Frontends {
		if fe.Kind != dataplane.NodePort {
			out = append(out, fe)
			continue
		}
		for _, a := range t.Node.Addrs {
			own := fe
			own.Addr = a
			if _, taken := t.Frontend(own.Key); !taken {
				out = append(out, own)
			}
		}
	}
	return out
}

// declare makes sure that there is a set of that name.
func (b *builder) declare(name string, k kind, why string) *set {
	s, ok := b.sets[name]
	if !ok {
		s = &set{name: name, kind: k, comment: why}
		b.sets[name] = s
	}
	return s
}

func (b *builder) add(s *set, e element) { s.elements = append(s.elements, e) }

// join puts a frontend into a set of frontends.
func (b *builder) join(name, key, why string) {
	b.add(b.declare(name, frontendKeys, why), element{key: key})
}

// frontend adds all elements of a frontend.
func (b *builder) frontend(fe dataplane.Frontend) {
	key := frontendKey(fe.Key)
	b.add(b.sets[frontendsSet], element{key: key, comment: comment(fe.Service)})
	if fe.Kind != dataplane.NodePort && contains(b.table.Node.ServiceRanges, fe.Addr) {
		b.clusterIP(fe.Addr)
	}
	b.allowed(fe, key)
	if b.allRefuse(fe) {
		b.join(refuseSet, key, "no endpoint anywhere")
		return
	}
	var sets []string
	for _, s := range b.sources {
		r := fe.Routes[s]
		b.verdict(r, s, key)
		if r.Verdict != dataplane.Forward {
			continue
		}
		at := slices.Index(sets, r.Set)
		if at < 0 {
			at = len(sets)
			sets = append(sets, r.Set)
			b.endpoints(r.Set, key, at)
		}
		if at > 0 {
			b.join(fmt.Sprintf("alt%d-%s", at, s), key, fmt.Sprintf("from %s: other endpoints", s))
		}
	}
}

func (b *builder) clusterIP(a netip.Addr) {
	s := b.sets[clusterIPsSet]
	if n := len(s.elements); n == 0 || s.elements[n-1].key != addressKey(a) { // frontends are sorted
		b.add(s, element{key: addressKey(a)})
	}
}

func contains(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// allRefuse reports whether a frontend refuses whoever comes.
func (b *builder) allRefuse(fe dataplane.Frontend) bool {
	return !slices.ContainsFunc(b.sources, func(s dataplane.Source) bool { return fe.Routes[s].Verdict != dataplane.Refuse })
}

// verdict notes what is not the rule for a class of sources: that of Pods is
// that their source is kept, that of others that it is rewritten.
func (b *builder) verdict(r dataplane.Route, s dataplane.Source, key string) {
	switch {
	case r.Verdict == dataplane.Refuse:
		b.join("refuse-"+s.String(), key, fmt.Sprintf("from %s: refused", s))
	case r.Verdict == dataplane.Drop:
		b.join("drop-"+s.String(), key, fmt.Sprintf("from %s: dropped", s))
	case s == dataplane.FromPod && r.Masquerade:
		b.join("masq-"+s.String(), key, fmt.Sprintf("from %s: source rewritten", s))
	case s != dataplane.FromPod && !r.Masquerade:
		b.join("keep-"+s.String(), key, fmt.Sprintf("from %s: source kept", s))
	}
}

// allowed adds the ranges of sources of a frontend that not all may use.
func (b *builder) allowed(fe dataplane.Frontend, key string) {
	if fe.Allowed == nil || everything(fe.Allowed) {
		return
	}
	b.join(restrictedSet, key, "only some sources may use these")
	s := b.declare(allowedSet, ranges, "sources that may use restricted frontends")
	for _, r := range outermost(fe.Allowed) {
		low, high := allowedKey(key, r)
		b.add(s, element{key: low, end: high})
	}
}

// outermost drops ranges inside of others: the kernel refuses ranges that
// overlap.
func outermost(ranges []netip.Prefix) []netip.Prefix {
	sorted := slices.Clone(ranges)
	for i := range sorted {
		sorted[i] = sorted[i].Masked()
	}
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var out []netip.Prefix
	for _, r := range sorted {
		if n := len(out); n == 0 || !out[n-1].Overlaps(r) {
			out = append(out, r)
		}
	}
	return out
}

// hairpin adds the endpoints that may reach themselves.
func (b *builder) hairpin() {
	local := map[netip.Addr]bool{}
	for _, s := range b.table.Sets {
		for _, e := range s.Endpoints {
			if e.Local {
				local[e.Addr.Addr()] = true
			}
		}
	}
	for a := range local {
		b.add(b.sets[hairpinSet], element{key: pairKey(a)})
	}
}

// sortedSets returns the sets by name, their elements by key.
func (b *builder) sortedSets() []set {
	out := make([]set, 0, len(b.sets))
	for _, name := range slices.Sorted(maps.Keys(b.sets)) {
		s := b.sets[name]
		less := func(x, y element) int { return strings.Compare(x.key, y.key) }
		if s.kind == endpointRows || s.kind == chainRows {
			less = byRow
		}
		if !slices.IsSortedFunc(s.elements, less) { // mostly they are: frontends are
			slices.SortFunc(s.elements, less)
		}
		out = append(out, *s)
	}
	return out
}

// has reports whether a set has elements.
func (b *builder) has(name string) bool {
	s, ok := b.sets[name]
	return ok && len(s.elements) > 0
}
