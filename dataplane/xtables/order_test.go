package xtables

import (
	"fmt"
	"slices"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

// The tables of a change are transactions of their own: one that only loses rules
// comes after those that gain some, whose packets need the old ones until then.
func TestTablesThatLoseComeLast(t *testing.T) {
	edit := func(table Table, op dataplane.Op) Edit { return Edit{Table: table, Op: op} }
	for _, c := range []struct {
		edits   []Edit
		removal bool
		want    []Table
	}{
		{[]Edit{edit(NAT, dataplane.Add), edit(Mangle, dataplane.Remove), edit(Filter, dataplane.Update)}, false, []Table{Filter, NAT, Mangle}},
		{[]Edit{edit(NAT, dataplane.Add), edit(Mangle, dataplane.Remove), edit(Mangle, dataplane.Add)}, false, []Table{Mangle, NAT}},
		{[]Edit{edit(NAT, dataplane.Remove), edit(Mangle, dataplane.Remove), edit(Filter, dataplane.Remove)}, true, []Table{NAT, Mangle, Filter}},
	} {
		if got := tables(c.edits, c.removal); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.edits, got, c.want)
		}
	}
}

// A few chains that take the place of many come in one part with the jumps to them,
// and the many go afterwards.
func TestChainsComeWithTheirJumps(t *testing.T) {
	have := State{Tables: map[Table]*TableState{NAT: {Chains: map[string][]string{}}}}
	for i := range 300 {
		have.Tables[NAT].Chains[fmt.Sprintf("TOY-SVC-%d", i)] = []string{"-j ACCEPT"}
	}
	want := web()
	d := Diff(want, have)
	s := sortEdits(d)
	most := 0
	for _, e := range slices.Concat(s.written, s.jumps) {
		most += e.weight()
	}
	parts := parts(d, most)
	if len(parts) < 2 || len(parts[0].Edits) != len(s.written)+len(s.jumps) {
		t.Fatalf("%d parts, the first of %d edits; want one of %d, and more", len(parts), len(parts[0].Edits), len(s.written)+len(s.jumps))
	}
	for _, p := range parts[1:] {
		for _, e := range p.Edits {
			if e.Op != dataplane.Remove {
				t.Errorf("%s %s comes late", e.Table, e.Chain)
			}
		}
	}
}
