package nftables

import "slices"

// op is one change, or some that have to be in one transaction.
type op func(*batch) error

// stages orders changes so that no packet sees half of one. Packets look into
// several sets one after the other, and a transaction may come between two
// looks. So first everything is added that packets may be led to, and what leads
// them there; then what led them elsewhere is taken away; and after a pause, in
// which packets on their way arrive, what they were led to. Each stage is one
// transaction when it is small, else several, in its order.
type stages struct{ grow, leave, clean []op }

// stages returns the changes in the order in which they have to be made.
func (d *delta) stages() (s stages) {
	if d.gone {
		s.grow = append(s.grow, func(b *batch) error { b.deleteTable(); return nil })
		return s
	}
	if d.rebuild != "" {
		s.grow = append(s.grow, func(b *batch) error { b.deleteTable(); return nil })
	}
	if d.rebuild != "" || d.added {
		s.grow = append(s.grow, func(b *batch) error { b.addTable(); return nil })
	}
	for i := range d.sets {
		if sd := &d.sets[i]; sd.isNew {
			s.grow = append(s.grow, func(b *batch) error { b.addSet(sd.set); return nil })
		}
	}
	d.newChains(&s)
	d.data(&s)
	d.membership(&s)
	for i := range d.chains {
		if cd := &d.chains[i]; cd.isBase() && !cd.gone {
			s.grow = append(s.grow, func(b *batch) error { b.addChain(cd.chain); return cd.rewrite(b) })
		}
	}
	d.cleanUp(&s)
	return s
}

// newChains adds chains: all of them first, because their rules name others.
func (d *delta) newChains(s *stages) {
	for i := range d.chains {
		if cd := &d.chains[i]; cd.isNew && !cd.isBase() {
			s.grow = append(s.grow, func(b *batch) error { b.addChain(cd.chain); return nil })
		}
	}
	for i := range d.chains {
		if cd := &d.chains[i]; cd.isNew && !cd.isBase() {
			s.grow = append(s.grow, cd.rewrite)
		}
	}
}

// data changes the sets that packets are led to by others.
func (d *delta) data(s *stages) {
	for i := range d.sets {
		if sd := &d.sets[i]; sd.kind.isData() && !sd.gone {
			s.grow = append(s.grow, sd.changes()...)
			s.clean = append(s.clean, sd.bulk(sd.remove, true)...)
		}
	}
}

// membership changes the sets that lead packets, and then the rules of chains
// that are there, which may look into other sets than before: until then a
// frontend is in both. The set of all frontends comes last when it grows, first
// when it shrinks.
func (d *delta) membership(s *stages) {
	var sets []*setDelta
	for i := range d.sets {
		if sd := &d.sets[i]; !sd.kind.isData() && !sd.gone {
			sets = append(sets, sd)
		}
	}
	slices.SortStableFunc(sets, func(a, b *setDelta) int { return rank(a.name) - rank(b.name) })
	lead := slices.IndexFunc(sets, func(sd *setDelta) bool { return rank(sd.name) > 0 })
	if lead < 0 {
		lead = len(sets)
	}
	for _, sd := range sets[:lead] {
		s.grow = append(s.grow, sd.changes()...)
	}
	for i := range d.chains {
		if cd := &d.chains[i]; !cd.isNew && !cd.gone && !cd.isBase() {
			s.grow = append(s.grow, cd.rewrite)
		}
	}
	for _, sd := range sets[lead:] {
		s.grow = append(s.grow, sd.changes()...)
	}
	slices.Reverse(sets)
	for _, sd := range sets {
		s.leave = append(s.leave, sd.bulk(sd.remove, true)...)
	}
}

func rank(name string) int {
	switch name {
	case frontendsSet:
		return 2
	case clusterIPsSet:
		return 1
	}
	return 0
}

// cleanUp deletes chains and sets. Rules go first, because they hold both;
// then sets, because their elements hold chains.
func (d *delta) cleanUp(s *stages) {
	each := func(write func(*batch, string), name string) {
		s.clean = append(s.clean, func(b *batch) error { write(b, name); return nil })
	}
	for _, cd := range d.chains {
		if cd.gone {
			each((*batch).flush, cd.name)
		}
	}
	for _, sd := range d.sets {
		if sd.gone {
			each((*batch).deleteSet, sd.name)
		}
	}
	for _, cd := range d.chains {
		if cd.gone {
			each((*batch).deleteChain, cd.name)
		}
	}
}

// rewrite replaces all rules of a chain.
func (cd *chainDelta) rewrite(b *batch) error {
	b.flush(cd.name)
	for _, r := range cd.rules {
		if err := b.addRule(cd.name, r); err != nil {
			return err
		}
	}
	return nil
}

// changes replaces and adds elements.
func (sd *setDelta) changes() []op {
	var out []op
	inParts(len(sd.replace), func(from, to int) {
		out = append(out, func(b *batch) error {
			old := elementList{batch: b, to: sd.set, deletes: true}
			for i := from; i < to; i++ {
				old.write(sd.replace[i][0])
			}
			old.finish()
			now := elementList{batch: b, to: sd.set}
			for i := from; i < to; i++ {
				now.write(sd.replace[i][1])
			}
			now.finish()
			return nil
		})
	})
	for _, part := range groupParts(sd.addRows) {
		out = append(out, func(b *batch) error {
			l := elementList{batch: b, to: sd.set}
			for e := range each(part) {
				l.write(e)
			}
			l.finish()
			return nil
		})
	}
	return append(out, sd.bulk(sd.add, false)...)
}

// partSize is how many elements are never parted by a transaction's end.
const partSize = 500

// inParts calls visit for the parts of a list.
func inParts(n int, visit func(from, to int)) {
	for from := 0; from < n; from += partSize {
		visit(from, min(from+partSize, n))
	}
}

// groupParts divides groups of rows into parts of about partSize.
func groupParts(list []rows) (out [][]rows) {
	first, n := 0, 0
	for i, r := range list {
		if n += r.len(); n >= partSize || i == len(list)-1 {
			out = append(out, list[first:i+1])
			first, n = i+1, 0
		}
	}
	return out
}

// bulk adds or deletes elements in parts.
func (sd *setDelta) bulk(list []element, deletes bool) []op {
	var out []op
	inParts(len(list), func(from, to int) {
		out = append(out, func(b *batch) error {
			l := elementList{batch: b, to: sd.set, deletes: deletes}
			for _, e := range list[from:to] {
				l.write(e)
			}
			l.finish()
			return nil
		})
	})
	return out
}
