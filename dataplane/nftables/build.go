package nftables

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// mostClasses is the most endpoints for which frontends are in a set of those
// that have as many; frontends with more are in a map. A packet tries one set
// after the other.
const mostClasses = 32

// facts are what rules depend on besides frontends.
type facts struct {
	family dataplane.Family
	// node has what concerns the family.
	node dataplane.Node
	// sources are the classes of sources that can be told apart.
	sources []dataplane.Source
	// mark is the bit that notes that a source is to be rewritten.
	mark uint32
}

// factsOf returns the facts for a family of a table.
func factsOf(t dataplane.Table, f dataplane.Family) facts {
	node := dataplane.Table{Node: t.Node}.ForFamily(f).Node
	return facts{family: f, node: node, sources: sourcesOf(node, apart(t, f)), mark: node.Marks().Masquerade}
}

// builder turns a table, or what a table has of some Services, into a layout.
type builder struct {
	facts
	// table has frontends and sets of the family alone; its node is not used.
	table dataplane.Table
	// taken reports addresses and ports of the node that frontends have for
	// themselves.
	taken func(dataplane.Key) bool
	sets  map[string]*set
	// chains are those of endpoints and of sets with affinity, by name.
	chains map[string]chain
	// leads are the rows for each set of the table, for no frontend yet.
	leads []rows
	// count are the counts of what is built, each times sign.
	count tallies
	sign  int
}

// build returns all that our table of one family has to hold. Pure.
func build(t dataplane.Table, f dataplane.Family) layout {
	b := wholeBuilder(t, f)
	return b.layout()
}

// wholeBuilder builds a whole table.
func wholeBuilder(t dataplane.Table, f dataplane.Family) *builder {
	of := ofFamily(t, f)
	b := newBuilder(factsOf(t, f), of, func(k dataplane.Key) bool {
		_, ok := of.Frontend(k)
		return ok
	})
	for _, name := range []string{frontendsSet, clusterIPsSet, endpointsMap, hairpinSet} {
		b.always(name)
	}
	b.run()
	return b
}

func newBuilder(f facts, t dataplane.Table, taken func(dataplane.Key) bool) *builder {
	return &builder{facts: f, table: t, taken: taken, sets: map[string]*set{}, chains: map[string]chain{},
		leads: make([]rows, len(t.Sets)), count: tallies{shape: tally{}, elements: tally{}}, sign: 1}
}

// run builds sets, chains of Services, and counts.
func (b *builder) run() {
	frontends := b.expand()
	if n := len(frontends); n > 0 {
		b.always(frontendsSet).elements = make([]element, 0, n)
		b.always(endpointsMap).rows = make([]rows, 0, n)
	}
	for i := range frontends {
		b.frontend(&frontends[i])
	}
	b.hairpin()
	b.countMembers()
}

// always makes sure that there is a set that a whole table has also without
// elements.
func (b *builder) always(name string) *set {
	switch name {
	case frontendsSet:
		return b.declare(name, frontendKeys, "addresses and ports that clients dial")
	case clusterIPsSet:
		return b.declare(name, addresses, "on other ports these refuse")
	case endpointsMap:
		return b.declare(name, endpointRows, "the endpoints of each frontend, numbered")
	}
	return b.declare(hairpinSet, pairs, "endpoints here, which may reach themselves")
}

// layout returns what was built, with the chains that it needs; nothing when
// there is neither a frontend nor a range of them.
func (b *builder) layout() layout {
	if len(b.table.Frontends) == 0 && len(b.node.ServiceRanges) == 0 {
		return layout{family: b.family}
	}
	return layout{family: b.family, sets: b.sortedSets(), chains: skeleton{b.facts, b.count.shape}.chains(b.chains)}
}

// ofFamily returns the frontends and sets of one family.
func ofFamily(t dataplane.Table, f dataplane.Family) (out dataplane.Table) {
	frontends, sets := 0, 0
	for i := range t.Frontends {
		if dataplane.FamilyOf(t.Frontends[i].Addr) == f {
			frontends++
		}
	}
	for i := range t.Sets {
		if familyOf(&t.Sets[i]) == f {
			sets++
		}
	}
	if frontends == len(t.Frontends) && sets == len(t.Sets) {
		return dataplane.Table{Frontends: t.Frontends, Sets: t.Sets}
	}
	out.Frontends, out.Sets = make([]dataplane.Frontend, 0, frontends), make([]dataplane.EndpointSet, 0, sets)
	for i := range t.Frontends {
		if dataplane.FamilyOf(t.Frontends[i].Addr) == f {
			out.Frontends = append(out.Frontends, t.Frontends[i])
		}
	}
	for i := range t.Sets {
		if familyOf(&t.Sets[i]) == f {
			out.Sets = append(out.Sets, t.Sets[i])
		}
	}
	return out
}

func familyOf(s *dataplane.EndpointSet) dataplane.Family {
	return dataplane.FamilyOf(s.Endpoints[0].Addr.Addr())
}

// sourcesOf returns the classes of sources that packets are told apart by. Where
// nothing tells Pods, what is outside counts as one, and the node only where it
// is treated differently: apart.
func sourcesOf(n dataplane.Node, apart bool) []dataplane.Source {
	switch {
	case len(n.PodInterfaces) == 0 && everything(n.PodRanges):
		return []dataplane.Source{dataplane.FromPod}
	case slices.Contains(n.PodInterfaces, "+"):
		return []dataplane.Source{dataplane.FromPod, dataplane.FromNode}
	case len(n.PodInterfaces)+len(n.PodRanges) > 0:
		return []dataplane.Source{dataplane.FromPod, dataplane.FromNode, dataplane.FromOutside}
	case apart:
		return []dataplane.Source{dataplane.FromPod, dataplane.FromNode}
	}
	return []dataplane.Source{dataplane.FromPod}
}

// apart reports whether some frontend of a family treats the node not as Pods.
func apart(t dataplane.Table, f dataplane.Family) bool {
	return slices.ContainsFunc(t.Frontends, func(fe dataplane.Frontend) bool {
		return dataplane.FamilyOf(fe.Addr) == f && setApart(fe)
	})
}

func setApart(fe dataplane.Frontend) bool {
	return fe.Routes[dataplane.FromNode] != fe.Routes[dataplane.FromPod]
}

// everything reports whether one of the ranges holds all addresses.
func everything(ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Bits() == 0 })
}

// expand replaces each NodePort by one frontend an address of the node, unless
// another frontend has that address and port for itself.
func (b *builder) expand() []dataplane.Frontend {
	ports := 0
	for i := range b.table.Frontends {
		if b.table.Frontends[i].Kind == dataplane.NodePort {
			ports++
		}
	}
	if ports == 0 {
		return b.table.Frontends
	}
	out := make([]dataplane.Frontend, 0, len(b.table.Frontends)+ports*len(b.node.Addrs))
	for _, fe := range b.table.Frontends {
		if fe.Kind != dataplane.NodePort {
			out = append(out, fe)
			continue
		}
		for _, a := range b.node.Addrs {
			own := fe
			own.Addr = a
			if !b.taken(own.Key) {
				out = append(out, own)
			}
		}
	}
	return out
}

// declare makes sure that there is a set of that name. Its comment comes in
// parts.
func (b *builder) declare(name string, k kind, why ...string) *set {
	s, ok := b.sets[name]
	if !ok {
		s = &set{name: name, kind: k, comment: strings.Join(why, "")}
		b.sets[name] = s
	}
	return s
}

func (b *builder) add(s *set, e element) { s.elements = append(s.elements, e) }

// join puts a frontend into a set of frontends.
func (b *builder) join(name, key string, why ...string) {
	b.add(b.declare(name, frontendKeys, why...), element{key: key})
}

// frontend adds all elements of a frontend.
func (b *builder) frontend(fe *dataplane.Frontend) {
	key := frontendKey(fe.Key)
	b.add(b.always(frontendsSet), element{key: key, comment: comment(fe.Service)})
	if fe.Kind != dataplane.NodePort && contains(b.node.ServiceRanges, fe.Addr) {
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
			b.join(altSet(at, s), key, "from ", s.String(), ": other endpoints")
		}
	}
}

// clusterIP notes an address that refuses on other ports.
func (b *builder) clusterIP(a netip.Addr) {
	b.count.elements.add(counted{what: dialledAddress, addr: a}, b.sign)
	s, key := b.always(clusterIPsSet), addressKey(a)
	if n := len(s.elements); n == 0 || s.elements[n-1].key != key { // frontends are sorted
		b.add(s, element{key: key})
	}
}

func contains(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// allRefuse reports whether a frontend refuses whoever comes.
func (b *builder) allRefuse(fe *dataplane.Frontend) bool {
	return !slices.ContainsFunc(b.sources, func(s dataplane.Source) bool { return fe.Routes[s].Verdict != dataplane.Refuse })
}

// verdict notes what is not the rule for a class of sources: that of Pods is
// that their source is kept, that of others that it is rewritten.
func (b *builder) verdict(r dataplane.Route, s dataplane.Source, key string) {
	switch {
	case r.Verdict == dataplane.Refuse:
		b.join("refuse-"+s.String(), key, "from ", s.String(), ": refused")
	case r.Verdict == dataplane.Drop:
		b.join("drop-"+s.String(), key, "from ", s.String(), ": dropped")
	case s == dataplane.FromPod && r.Masquerade:
		b.join("masq-"+s.String(), key, "from ", s.String(), ": source rewritten")
	case s != dataplane.FromPod && !r.Masquerade:
		b.join("keep-"+s.String(), key, "from ", s.String(), ": source kept")
	}
}

// allowed adds the ranges of sources of a frontend that not all may use.
func (b *builder) allowed(fe *dataplane.Frontend, key string) {
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
	for _, s := range b.table.Sets {
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; e.Local {
				b.count.elements.add(counted{what: localEndpoint, addr: e.Addr.Addr()}, b.sign)
				b.add(b.always(hairpinSet), element{key: pairKey(e.Addr.Addr())})
			}
		}
	}
}

// sortedSets returns the sets by name, their elements by key, their rows by
// frontend.
func (b *builder) sortedSets() []set {
	out := make([]set, 0, len(b.sets))
	for _, s := range b.sets {
		if !slices.IsSortedFunc(s.elements, byKey) { // mostly they are: frontends are
			slices.SortFunc(s.elements, byKey)
		}
		if !slices.IsSortedFunc(s.rows, byGroup) {
			slices.SortFunc(s.rows, byGroup)
		}
		if s.kind == pairs { // several Services may have an endpoint
			s.elements = slices.Compact(s.elements)
		}
		out = append(out, *s)
	}
	slices.SortFunc(out, func(x, y set) int { return strings.Compare(x.name, y.name) })
	return out
}
