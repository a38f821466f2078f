package nftables

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// memory is what the kernel holds of our table of one family, in short: what
// cannot be told from the Services that a change touches. Those are how rows are
// numbered, and how often things are there that several Services share.
type memory struct {
	facts
	count tallies
	// rows are the leads of the groups of each map.
	rows map[string]map[group]string
}

// step is a change of some Services, in one family.
type step struct {
	delta
	// count is by how much counts change.
	count tallies
}

// remember notes that a step was made.
func (m *memory) remember(s step) {
	m.count.shape.sum(s.count.shape)
	m.count.elements.sum(s.count.elements)
	for name, changed := range s.rows {
		if m.rows[name] == nil {
			m.rows[name] = map[group]string{}
		}
		for g, leads := range changed {
			if leads == "" {
				delete(m.rows[name], g)
			} else {
				m.rows[name][g] = leads
			}
		}
	}
}

// plan finds out what has to change with some Services. It returns an error that
// wraps ErrForgotten when that concerns others too, or when what they had before
// is not what is remembered. Pure.
func (m *memory) plan(d dataplane.Delta) (step, error) {
	was, will := ofFamily(d.Before, m.family), ofFamily(d.After, m.family)
	if len(was.Frontends)+len(will.Frontends) == 0 {
		return step{}, nil
	}
	before := newBuilder(m.facts, was, m.owns)
	after := newBuilder(m.facts, will, func(k dataplane.Key) bool {
		_, ends := was.Frontend(k)
		_, own := will.Frontend(k)
		return own || !ends && m.owns(k)
	})
	before.sign, after.count = -1, before.count
	before.run()
	after.run()
	s := step{delta: delta{family: m.family, rows: map[string]map[group]string{}}, count: after.count}
	if err := m.vouch(s, was); err != nil {
		return step{}, err
	}
	if err := m.sets(&s, before.sortedSets(), after.sortedSets()); err != nil {
		return step{}, err
	}
	s.frontends = [][]element{after.always(frontendsSet).elements, before.always(frontendsSet).elements}
	m.chains(&s, before.chains, after.chains)
	return s, nil
}

// owns reports whether a frontend has an address and port of the node for itself.
func (m *memory) owns(k dataplane.Key) bool {
	return m.count.elements[counted{what: ownPort, alt: uint8(k.Protocol), n: uint32(k.Port), addr: k.Addr}] > 0
}

// vouch reports whether a step from a table concerns the Services of that alone.
func (m *memory) vouch(s step, before dataplane.Table) error {
	for c, n := range s.count.shape {
		if m.count.shape[c]+n < 0 {
			return forgotten("Services were there that are not known")
		}
	}
	for c, n := range s.count.elements {
		was := m.count.elements[c]
		if was+n < 0 {
			return forgotten("Services were there that are not known")
		}
		if c.what == ownPort && (was == 0) != (was+n == 0) && m.anothers(c, before) {
			return forgotten(fmt.Sprintf("the NodePort %d of another Service is concerned", c.n))
		}
	}
	set := counted{what: apartFrontend}
	if !slices.Equal(sourcesOf(m.node, m.count.shape[set]+s.count.shape[set] > 0), m.sources) {
		return forgotten("sources are told apart in another way")
	}
	some := counted{what: someFrontend}
	if was := m.count.shape[some]; len(m.node.ServiceRanges) == 0 && (was == 0 || was+s.count.shape[some] == 0) {
		return forgotten("the table comes or goes")
	}
	return nil
}

// anothers reports whether there is a NodePort with a protocol and port that is
// not in a table.
func (m *memory) anothers(own counted, t dataplane.Table) bool {
	door := counted{what: nodePort, alt: own.alt, n: own.n}
	return m.count.elements[door] > 0 && !slices.ContainsFunc(t.Frontends, func(fe dataplane.Frontend) bool {
		return fe.Kind == dataplane.NodePort && doorOf(&fe) == door
	})
}

// forgotten is the error that says why a whole pass is needed.
func forgotten(why string) error { return fmt.Errorf("nftables: %w: %s", dataplane.ErrForgotten, why) }

// merge visits what two sorted lists have, side by side: a is nil where only the
// second list has it, b where only the first has it.
func merge[T any](first, second []T, order func(T, T) int, visit func(a, b *T)) {
	for len(first) > 0 || len(second) > 0 {
		var o int
		switch {
		case len(first) == 0:
			o = 1
		case len(second) == 0:
			o = -1
		default:
			o = order(first[0], second[0])
		}
		var a, b *T
		if o <= 0 {
			a, first = &first[0], first[1:]
		}
		if o >= 0 {
			b, second = &second[0], second[1:]
		}
		visit(a, b)
	}
}

// sets compares the sets of both sides, which are sorted by name.
func (m *memory) sets(s *step, before, after []set) (err error) {
	byName := func(a, b set) int { return cmp.Compare(a.name, b.name) }
	merge(before, after, byName, func(was, will *set) {
		switch {
		case was == nil:
			was = &set{}
		case will == nil:
			will = &set{name: was.name, kind: was.kind}
		}
		if failed := m.set(s, *was, *will); failed != nil {
			err = failed
		}
	})
	return err
}

// set compares both sides of a set; was may be the zero set.
func (m *memory) set(s *step, was, will set) error {
	sd := setDelta{set: set{name: will.name, kind: will.kind, comment: will.comment}}
	have, change := m.count.shape, s.count.shape
	there := counted{what: members, name: will.name}
	if will.kind == clients {
		there.what, have, change = clientSet, m.count.elements, s.count.elements
	}
	if !will.alwaysThere() {
		sd.isNew = have[there] == 0
		sd.gone = have[there]+change[there] == 0
	}
	switch {
	case will.kind == clients: // the kernel writes them itself
	case will.kind.numbered():
		changed, err := m.changeRows(&sd, was.rows, will.rows)
		if err != nil {
			return err
		}
		s.rows[will.name] = changed
	case will.name == clusterIPsSet:
		m.changeShared(&sd, s, dialledAddress, was.elements, will.elements)
	case will.name == hairpinSet:
		m.changeShared(&sd, s, localEndpoint, was.elements, will.elements)
	default:
		sd.compareSorted(was.elements, will.elements)
	}
	if sd.gone {
		sd = setDelta{set: set{name: will.name}, gone: true}
	}
	if !sd.empty() {
		s.delta.sets = append(s.delta.sets, sd)
	}
	return nil
}

// compareSorted finds the elements that differ in lists that are sorted.
func (sd *setDelta) compareSorted(have, want []element) {
	merge(have, want, byKey, func(was, will *element) {
		switch {
		case was == nil:
			sd.add = append(sd.add, *will)
		case will == nil:
			sd.remove = append(sd.remove, *was)
		case *was != *will:
			sd.replace = append(sd.replace, [2]element{*was, *will})
		}
	})
}

// changeShared finds the elements that differ in a set of addresses, each of
// which is there as long as it is counted.
func (m *memory) changeShared(sd *setDelta, s *step, of what, have, want []element) {
	merge(have, want, byKey, func(e, will *element) {
		if e == nil {
			e = will
		}
		key := reader{m.family, e.key}
		c := counted{what: of, addr: key.address()}
		switch was, change := m.count.elements[c], s.count.elements[c]; {
		case was == 0 && change > 0:
			sd.add = append(sd.add, *e)
		case was > 0 && was+change == 0:
			sd.remove = append(sd.remove, *e)
		}
	})
}

// changeRows finds the rows that differ, and returns the leads of the groups as
// they will be; those of groups that go are empty.
func (m *memory) changeRows(sd *setDelta, before, after []rows) (map[group]string, error) {
	have := m.rows[sd.name]
	out := make(map[group]string, len(after))
	var err error
	merge(before, after, byGroup, func(was, will *rows) {
		known, expected := 0, 0
		var r rows
		if was != nil {
			r, expected = *was, len(was.leads)
		}
		if will != nil {
			r = *will
		}
		leads := have[r.group]
		if known = len(leads); known != expected {
			err = forgotten("rows of a frontend were there that are not known")
		}
		kernel := held{leads: leads, width: r.width}
		if will == nil {
			sd.drop(r.group, kernel, 0)
			out[r.group] = ""
			return
		}
		out[r.group] = sd.place(r, kernel)
	})
	return out, err
}

// chains compares the chains of the Services, and those that frontends share if
// something comes or goes that these depend on.
func (m *memory) chains(s *step, before, after map[string]chain) {
	was, will := ownChains(before), ownChains(after)
	if m.reshaped(s) {
		now := maps.Clone(m.count.shape)
		now.sum(s.count.shape)
		was, will = skeleton{m.facts, m.count.shape}.chains(before), skeleton{m.facts, now}.chains(after)
	}
	if len(was)+len(will) == 0 {
		return
	}
	had := map[string]chain{}
	for _, c := range was {
		had[c.name] = c
	}
	for _, c := range will {
		old, exists := had[c.name]
		delete(had, c.name)
		cd := chainDelta{chain: c, isNew: !exists, missing: lacking(c.rules, old.rules), surplus: len(lacking(old.rules, c.rules))}
		if !exists || !reflect.DeepEqual(c.rules, old.rules) {
			s.delta.chains = append(s.delta.chains, cd)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(had)) {
		s.delta.chains = append(s.delta.chains, chainDelta{chain: chain{name: name}, gone: true})
	}
}

// reshaped reports whether something comes or goes that shared chains depend on.
func (m *memory) reshaped(s *step) bool {
	for c, n := range s.count.shape {
		if had := m.count.shape[c]; (had == 0) != (had+n == 0) {
			return true
		}
	}
	some := counted{what: someFrontend}
	had := m.count.shape[some]
	return (had >= manyFrontends) != (had+s.count.shape[some] >= manyFrontends)
}

// lacking returns the rules that are not among others.
func lacking(rules, among []rule) (out []rule) {
	for _, r := range rules {
		if !slices.ContainsFunc(among, func(o rule) bool { return reflect.DeepEqual(r, o) }) {
			out = append(out, r)
		}
	}
	return out
}
