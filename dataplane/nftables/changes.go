package nftables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Changes lists the changes of all families in the order in which they take
// effect.
func (ds deltas) Changes() []dataplane.Change {
	var out []dataplane.Change
	for _, d := range ds {
		out = append(out, d.changes()...)
	}
	return out
}

// object names a kernel object of our table.
func (d delta) object(what string) string {
	return fmt.Sprintf("nft %s %s %s", ipText(d.family), tableName, what)
}

func (d delta) changes() []dataplane.Change {
	table := fmt.Sprintf("nft table %s %s", ipText(d.family), tableName)
	var out []dataplane.Change
	switch {
	case d.gone:
		return []dataplane.Change{{Op: dataplane.Remove, Object: table, Reason: "table not wanted"}}
	case d.added:
		out = append(out, dataplane.Change{Op: dataplane.Add, Object: table, Reason: "table missing"})
	case d.rebuild != "":
		out = append(out, dataplane.Change{Op: dataplane.Update, Object: table, Reason: d.rebuild + ": made anew"})
	}
	for _, sd := range d.sets {
		if !sd.gone {
			out = append(out, d.setChanges(sd)...)
		}
	}
	for _, cd := range d.chains {
		if !cd.gone {
			out = append(out, d.chainChange(cd))
		}
	}
	for _, data := range []bool{false, true} { // as in stages
		for _, sd := range d.sets {
			if sd.kind.isData() == data {
				out = append(out, d.elementChanges(sd, dataplane.Remove)...)
			}
		}
	}
	for _, sd := range d.sets {
		if sd.gone {
			out = append(out, dataplane.Change{Op: dataplane.Remove, Object: d.object("set " + sd.name), Reason: "set not wanted"})
		}
	}
	for _, cd := range d.chains {
		if cd.gone {
			out = append(out, dataplane.Change{Op: dataplane.Remove, Object: d.object("chain " + cd.name), Reason: "chain not wanted"})
		}
	}
	return out
}

// word is what nft calls a set.
func (sd setDelta) word() string {
	if sd.kind.isMap() {
		return "map"
	}
	return "set"
}

// setChanges lists a new set as one change, and element by element what differs
// in one that is there. The set of frontends is always listed: it names the
// Services.
func (d delta) setChanges(sd setDelta) []dataplane.Change {
	var out []dataplane.Change
	name := sd.word() + " " + sd.name
	if sd.isNew {
		reason := sd.word() + " missing"
		if n := len(sd.add) + count(sd.addRows); n == 1 {
			reason += ", with 1 element"
		} else if n > 0 {
			reason += fmt.Sprintf(", with %d elements", n)
		}
		out = append(out, dataplane.Change{Op: dataplane.Add, Object: d.object(name), Reason: reason, For: serviceOf(sd)})
		if sd.name != frontendsSet {
			return out
		}
	}
	out = append(out, d.elementChanges(sd, dataplane.Update)...)
	return append(out, d.elementChanges(sd, dataplane.Add)...)
}

// elementChanges lists the elements of a set that are added, or updated, or
// removed.
func (d delta) elementChanges(sd setDelta, o dataplane.Op) []dataplane.Change {
	var out []dataplane.Change
	one := func(e element, reason string, lines ...string) {
		what := fmt.Sprintf("element of %s %s %s", sd.word(), sd.name, keyText(d.family, sd.kind, e))
		out = append(out, dataplane.Change{Op: o, Object: d.object(what), For: d.service(sd.kind, e), Reason: reason, Lines: lines})
	}
	text := func(e element) string { return elementText(d.family, sd.kind, e) }
	switch o {
	case dataplane.Update:
		for _, pair := range sd.replace {
			one(pair[1], "element is "+text(pair[0]), "- "+text(pair[0]), "+ "+text(pair[1]))
		}
	case dataplane.Add:
		for _, e := range sd.add {
			one(e, "element missing", "+ "+text(e))
		}
		for e := range each(sd.addRows) {
			one(e, "element missing", "+ "+text(e))
		}
	case dataplane.Remove:
		for _, e := range sd.remove {
			one(e, "element not wanted", "- "+text(e))
		}
	}
	return out
}

// serviceOf is the Service that a set of clients is for.
func serviceOf(sd setDelta) string {
	if sd.kind != clients {
		return ""
	}
	service, _, _ := strings.Cut(sd.comment, " ")
	return service
}

// service is the Service of the frontend that an element is about.
func (d delta) service(k kind, e element) string {
	if k == addresses || k == pairs || k == clients {
		return ""
	}
	n := d.family.Bits()/8 + 8
	if len(e.key) < n {
		return ""
	}
	for _, list := range d.frontends {
		if i, ok := slices.BinarySearchFunc(list, element{key: e.key[:n]}, byKey); ok {
			return list[i].comment
		}
	}
	return e.comment
}

func (d delta) chainChange(cd chainDelta) dataplane.Change {
	c := dataplane.Change{Op: dataplane.Update, Object: d.object("chain " + cd.name), For: cd.comment}
	for _, r := range cd.missing {
		c.Lines = append(c.Lines, "+ "+r.text(d.family))
	}
	switch n := len(cd.missing); {
	case cd.isNew:
		c.Op, c.Reason = dataplane.Add, "chain missing"
	case n == 1:
		c.Reason = "rule missing: " + cd.missing[0].text(d.family)
	case n > 1:
		c.Reason = fmt.Sprintf("rule missing, %d times, the first: %s", n, cd.missing[0].text(d.family))
	case cd.surplus > 0:
		c.Reason = "rule that does not belong in our chain"
	default:
		c.Reason = "rules in another order, or twice"
	}
	return c
}
