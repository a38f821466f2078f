package nftables

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// delta is what has to change in our table of one family.
type delta struct {
	family dataplane.Family
	// gone: the table is not wanted any more; nothing else is set.
	gone bool
	// rebuild says why a table that is there has to be made anew; added is the
	// reason for a table that is not there.
	rebuild string
	added   bool
	sets    []setDelta
	chains  []chainDelta
	// services names the Service of each frontend, for people.
	services map[string]string
}

func (d delta) empty() bool {
	return !d.gone && d.rebuild == "" && !d.added && len(d.sets) == 0 && len(d.chains) == 0
}

// setDelta is what has to change in one set.
type setDelta struct {
	set         // name, kind and comment
	isNew, gone bool
	// add and remove are elements; replace are pairs of one that has to go and
	// one that takes its key.
	add, remove []element
	replace     [][2]element
}

// chainDelta is what has to change in one chain.
type chainDelta struct {
	chain
	isNew, gone bool
	// missing are rules of the chain that the kernel does not have, surplus is
	// how many others it has.
	missing []rule
	surplus int
}

// difference compares what ought to be with what is. Pure.
func difference(want layout, have state) (delta, error) {
	d := delta{family: want.family, services: map[string]string{}}
	ours := have.exists && have.comment == tableComment
	switch {
	case want.empty():
		d.gone = ours
		return d, nil
	case have.exists && !ours:
		return d, fmt.Errorf("table %[1]s %[2]s is there, but not made by toyproxy, whose tables have the comment %[3]q: rename it, or delete it by nft delete table %[1]s %[2]s",
			ipText(want.family), tableName, tableComment)
	}
	d.rebuild = damage(want, have)
	d.added = !have.exists
	if d.added || d.rebuild != "" {
		have = state{}
	}
	for _, s := range want.sets {
		if s.name == frontendsSet {
			for _, e := range s.elements {
				d.services[e.key] = e.comment
			}
		}
		was, exists := have.sets[s.name]
		sd := setDelta{set: s, isNew: !exists}
		sd.compare(s, was)
		if sd.isNew || len(sd.add)+len(sd.remove)+len(sd.replace) > 0 {
			sd.elements = nil
			d.sets = append(d.sets, sd)
		}
	}
	if err := d.compareChains(want, have); err != nil {
		return d, err
	}
	d.unwanted(want, have)
	return d, nil
}

// unwanted adds sets and chains that the kernel has and the layout has not.
func (d *delta) unwanted(want layout, have state) {
	names := map[string]bool{}
	for _, s := range want.sets {
		names[s.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(have.sets)) {
		if !names[name] {
			d.sets = append(d.sets, setDelta{set: set{name: name}, gone: true})
		}
	}
	clear(names)
	for _, c := range want.chains {
		names[c.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(have.chains)) {
		if !names[name] {
			d.chains = append(d.chains, chainDelta{chain: chain{name: name}, gone: true})
		}
	}
}

// damage says why a table cannot be repaired where it stands: what cannot be
// changed about it is not as it was made. Empty: it can.
func damage(want layout, have state) string {
	if !have.exists {
		return ""
	}
	if have.flags != 0 {
		return "table is dormant"
	}
	for _, s := range want.sets {
		was, ok := have.sets[s.name]
		if !ok {
			continue
		}
		size := uint32(0)
		if s.kind == clients {
			size = clientsSize
		}
		if was.shape != shapeOf(want.family, s.kind) || was.size != size {
			return "set " + s.name + " has another type"
		}
	}
	for _, c := range want.chains {
		was, ok := have.chains[c.name]
		if !ok {
			continue
		}
		kind := ""
		if c.isBase() {
			kind = "nat"
		}
		same := was.kind == kind && was.hook.number == c.hook.number && was.hook.priority == c.hook.priority && was.comment == c.comment
		if !same || c.isBase() && was.policy != 1 {
			return "chain " + c.name + " has another hook, policy or comment"
		}
	}
	return ""
}

// compareChains finds chains that are missing or have other rules.
func (d *delta) compareChains(want layout, have state) error {
	for _, c := range want.chains {
		was, exists := have.chains[c.name]
		cd := chainDelta{chain: c, isNew: !exists}
		canonical := make([]string, len(c.rules))
		for i, r := range c.rules {
			encoded, err := encodeRule(want.family, r)
			if err != nil {
				return err
			}
			canonical[i] = strings.Join(encoded, "")
			if !slices.Contains(was.rules, canonical[i]) {
				cd.missing = append(cd.missing, r)
			}
		}
		if slices.Equal(canonical, was.rules) && exists {
			continue
		}
		for _, r := range was.rules {
			if !slices.Contains(canonical, r) {
				cd.surplus++
			}
		}
		d.chains = append(d.chains, cd)
	}
	return nil
}

// compare finds the elements that differ.
func (sd *setDelta) compare(want set, have setState) {
	switch want.kind {
	case clients: // the kernel writes them itself
	case endpointRows, chainRows:
		sd.compareRows(want, have)
	default:
		left := maps.Clone(have.elements)
		for _, e := range want.elements {
			was, ok := left[e.key+e.end]
			delete(left, e.key+e.end)
			switch {
			case !ok:
				sd.add = append(sd.add, e)
			case was != e:
				sd.replace = append(sd.replace, [2]element{was, e})
			}
		}
		sd.remove = sortedElements(maps.Values(left))
	}
}

// rowGroup is the rows of one alternative of one frontend: any of them is as
// good as any other, as long as they are numbered without a gap.
type rowGroup struct {
	frontend string
	alt      uint32
}

func groupOf(key string) (g rowGroup, at uint32) {
	frontend, n := splitRow(key)
	return rowGroup{frontend, n / rowSpan}, n % rowSpan
}

// compareRows finds the rows that differ. Rows that lead where some row has to
// lead stay what they are, so that one endpoint more or less is one row, or two.
func (sd *setDelta) compareRows(want set, have setState) {
	same := len(have.elements) == len(want.elements)
	for _, e := range want.elements {
		if !same {
			break
		}
		same = have.elements[e.key] == e
	}
	if same {
		return
	}
	groups := map[rowGroup]map[uint32]element{}
	for _, e := range have.elements {
		g, at := groupOf(e.key)
		if groups[g] == nil {
			groups[g] = map[uint32]element{}
		}
		groups[g][at] = e
	}
	for first := 0; first < len(want.elements); {
		g, _ := groupOf(want.elements[first].key)
		end := first + 1
		for ; end < len(want.elements); end++ {
			if next, _ := groupOf(want.elements[end].key); next != g {
				break
			}
		}
		sd.place(g, want.elements[first:end], groups[g])
		delete(groups, g)
		first = end
	}
	for _, rows := range groups {
		sd.remove = slices.AppendSeq(sd.remove, maps.Values(rows))
	}
	sd.remove = sortedElements(slices.Values(sd.remove))
}

// place compares the rows of one group.
func (sd *setDelta) place(g rowGroup, want []element, have map[uint32]element) {
	type value struct{ data, chain, comment string }
	valueOf := func(e element) value { return value{e.data, e.chain, e.comment} }
	need := map[value]int{}
	for _, e := range want {
		need[valueOf(e)]++
	}
	n := uint32(len(want))
	keep := make([]bool, n)
	for at := range n {
		if e, ok := have[at]; ok && need[valueOf(e)] > 0 {
			need[valueOf(e)]--
			keep[at] = true
		}
	}
	at := uint32(0)
	for _, e := range want {
		if need[valueOf(e)] == 0 {
			continue
		}
		need[valueOf(e)]--
		for keep[at] {
			at++
		}
		e.key = rowKey(g.frontend, g.alt*rowSpan+at)
		if was, ok := have[at]; ok {
			sd.replace = append(sd.replace, [2]element{was, e})
		} else {
			sd.add = append(sd.add, e)
		}
		at++
	}
	for at, e := range have {
		if at >= n {
			sd.remove = append(sd.remove, e)
		}
	}
}

func sortedElements(seq func(func(element) bool)) []element {
	return slices.SortedFunc(seq, func(a, b element) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.end, b.end)) })
}
