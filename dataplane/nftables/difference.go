package nftables

import (
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
	// frontends name the Services, for people: elements of the set of all
	// frontends, in lists sorted by key.
	frontends [][]element
	// rows are the leads of the groups of each map as they are once the changes
	// were made.
	rows map[string]map[group]string
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
	// addRows are groups of which the kernel has no row.
	addRows []rows
}

func (sd *setDelta) empty() bool {
	return !sd.isNew && !sd.gone && len(sd.add)+len(sd.remove)+len(sd.replace)+len(sd.addRows) == 0
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
	d := delta{family: want.family, rows: map[string]map[group]string{}}
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
		was, exists := have.sets[s.name]
		sd := setDelta{set: set{name: s.name, kind: s.kind, comment: s.comment}, isNew: !exists}
		switch {
		case s.kind == clients: // the kernel writes them itself
		case s.kind.numbered():
			d.rows[s.name] = sd.compareRows(s, was)
		default:
			sd.compare(s.elements, was.elements)
		}
		if s.name == frontendsSet {
			d.frontends = [][]element{s.elements, sd.remove}
		}
		if !sd.empty() {
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
		same := was.kind == c.hook.kind && was.hook.number == c.hook.number && was.hook.priority == c.hook.priority && was.comment == c.comment
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
func (sd *setDelta) compare(want []element, have map[string]element) {
	same := 0
	for _, e := range want {
		was, ok := have[e.key+e.end]
		switch {
		case !ok:
			sd.add = append(sd.add, e)
			continue
		case was != e:
			sd.replace = append(sd.replace, [2]element{was, e})
		}
		same++
	}
	if same == len(have) {
		return
	}
	wanted := make(map[string]bool, len(want))
	for _, e := range want {
		wanted[e.key+e.end] = true
	}
	for key, e := range have {
		if !wanted[key] {
			sd.remove = append(sd.remove, e)
		}
	}
	slices.SortFunc(sd.remove, byKey)
}
