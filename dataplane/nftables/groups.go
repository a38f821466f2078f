package nftables

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// group names the rows of one alternative of one frontend: any of them is as
// good as any other, as long as they are numbered without a gap.
type group struct {
	frontend string
	alt      uint32
}

// rows are those of a group. Frontends that choose from the same endpoints have
// the same leads, in memory too.
type rows struct {
	group
	// leads are what the rows lead to, one after the other from number 0, each
	// as long as width says. Zeros are a row that is not there.
	leads string
	width int
}

// byGroup orders rows by frontend and alternative.
func byGroup(x, y rows) int {
	return cmp.Or(strings.Compare(x.frontend, y.frontend), cmp.Compare(x.alt, y.alt))
}

func (r rows) len() int { return len(r.leads) / r.width }

// lead is what a row leads to.
func (r rows) lead(at int) string { return r.leads[at*r.width : (at+1)*r.width] }

// element is a row as an element.
func (r rows) element(at int) element {
	return element{key: rowKey(r.frontend, r.alt*rowSpan+uint32(at)), to: r.lead(at)}
}

// count is how many rows there are in all.
func count(list []rows) (n int) {
	for _, r := range list {
		n += r.len()
	}
	return n
}

// each are the rows of groups, one by one.
func each(list []rows) iter.Seq[element] {
	return func(yield func(element) bool) {
		for _, r := range list {
			for at := range r.len() {
				if !yield(r.element(at)) {
					return
				}
			}
		}
	}
}

// chainWidth is how long the names of chains of endpoints are: see endpointChain.
const chainWidth = len(endpointPrefix) + hashLength

// widthOf is how many bytes a row of a map leads to; zero for what has no rows.
func widthOf(f dataplane.Family, k kind) int {
	switch k {
	case endpointRows:
		return f.Bits()/8 + 4
	case chainRows:
		return chainWidth
	}
	return 0
}

// zeros is a row that is not there, whatever its width.
const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// place numbers the rows that are wanted so that as many as can be are what they
// are already, notes what has to change, and returns the leads in that order.
func (sd *setDelta) place(want rows, have held) string {
	if have.same(want) {
		return want.leads
	}
	if len(have.leads) == 0 {
		sd.addRows = append(sd.addRows, want)
		return want.leads
	}
	out := make([]byte, len(want.leads))
	need := want.keep(have, out)
	w, at := want.width, 0
	for i := range want.len() {
		lead := want.lead(i)
		if need[lead] == 0 {
			continue
		}
		need[lead]--
		for string(out[at*w:(at+1)*w]) != zeros[:w] {
			at++
		}
		copy(out[at*w:], lead)
		e := element{key: rowKey(want.frontend, want.alt*rowSpan+uint32(at)), to: lead}
		if was, ok := have.element(want.group, at); ok {
			sd.replace = append(sd.replace, [2]element{was, e})
		} else {
			sd.add = append(sd.add, e)
		}
	}
	sd.drop(want.group, have, want.len())
	return string(out)
}

// keep writes to out the rows that stay as they are, and counts what else is
// wanted. Most rows have the number that they are wanted with.
func (r rows) keep(have held, out []byte) map[string]int {
	need := map[string]int{}
	both := min(r.len(), have.len())
	for at := range r.len() {
		if lead := r.lead(at); at < both && lead == have.lead(at) {
			copy(out[at*r.width:], lead)
		} else {
			need[lead]++
		}
	}
	for at := range both {
		if lead := have.lead(at); need[lead] > 0 && lead != r.lead(at) {
			need[lead]--
			copy(out[at*r.width:], lead)
		}
	}
	return need
}

// drop notes that the rows from a number on have to go.
func (sd *setDelta) drop(g group, have held, from int) {
	for at := from; at < have.len(); at++ {
		if e, ok := have.element(g, at); ok {
			sd.remove = append(sd.remove, e)
		}
	}
}

// held are the rows of a group that the kernel has.
type held struct {
	leads string
	width int
	// odd are rows, of any group, that lead where no row of ours does, or have a
	// comment; nil without any.
	odd map[string]element
}

func (h held) len() int { return len(h.leads) / max(h.width, 1) }

func (h held) lead(at int) string { return h.leads[at*h.width : (at+1)*h.width] }

// same reports whether the rows are those that are wanted, with these numbers.
func (h held) same(want rows) bool {
	n := len(want.leads)
	return len(h.leads) >= n && h.leads[:n] == want.leads && strings.Trim(h.leads[n:], "\x00") == ""
}

// element is a row as the kernel has it, if it is there.
func (h held) element(g group, at int) (element, bool) {
	if at >= h.len() {
		return element{}, false
	}
	e := element{key: rowKey(g.frontend, g.alt*rowSpan+uint32(at)), to: h.lead(at)}
	if odd, ok := h.odd[e.key]; ok {
		return odd, true
	}
	return e, e.to != zeros[:h.width]
}

// compareRows finds the rows that differ, and returns the leads of all groups as
// they will be then. Rows that lead where some row has to lead stay what they
// are, so that one endpoint more or less is one row, or two.
func (sd *setDelta) compareRows(want set, have setState) map[group]string {
	after := make(map[group]string, len(want.rows))
	for _, r := range want.rows {
		after[r.group] = sd.place(r, have.group(r.group))
	}
	for g := range have.rows {
		if _, ok := after[g]; !ok {
			sd.drop(g, have.group(g), 0)
		}
	}
	slices.SortFunc(sd.remove, byKey)
	return after
}

// sorted are all elements that the kernel has, rows too, by key.
func (set *setState) sorted() []element {
	out := slices.Collect(maps.Values(set.elements))
	for g := range set.rows {
		rows := set.group(g)
		for at := range rows.len() {
			if e, ok := rows.element(g, at); ok {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, byKey)
	return out
}
