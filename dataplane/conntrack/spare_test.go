package conntrack

import (
	"slices"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

// edit changes a table in a few respects, by chance.
func (d dice) edit(t dataplane.Table) dataplane.Table {
	out := dataplane.Table{Node: t.Node, Frontends: slices.Clone(t.Frontends)}
	for _, s := range t.Sets {
		s.Endpoints = slices.Clone(s.Endpoints)
		family := dataplane.FamilyOf(s.Endpoints[0].Addr.Addr())
		if more := d.flow().Reply.Source; d.IntN(2) == 0 && dataplane.FamilyOf(more.Addr()) == family {
			s.Endpoints = append(s.Endpoints, dataplane.Endpoint{Addr: more})
			slices.SortFunc(s.Endpoints, func(a, b dataplane.Endpoint) int { return a.Addr.Compare(b.Addr) })
			s.Endpoints = slices.Compact(s.Endpoints)
		}
		if len(s.Endpoints) > 1 && d.IntN(20) == 0 {
			s.Endpoints = s.Endpoints[1:]
		}
		out.Sets = append(out.Sets, s)
	}
	for i := range out.Frontends {
		switch fe := &out.Frontends[i]; d.IntN(50) {
		case 0:
			again := d.frontend()
			fe.Allowed = again.Allowed
		case 1:
			class := d.IntN(int(dataplane.Sources))
			fe.Routes[class] = dataplane.Route{Verdict: dataplane.Verdict(1 + d.IntN(2))}
		case 2:
			out.Frontends = slices.Delete(out.Frontends, i, i+1)
			return out
		}
	}
	return out
}

// Of a change that is said to spare all flows, none that was right is wrong after
// it.
func TestSpares(t *testing.T) {
	spared := 0
	for seed := range uint64(2000) {
		d := newDice(seed)
		w := d.wanted()
		var right []Flow
		for range 100 {
			if f := d.flow(); !naive(w, f) {
				right = append(right, f)
			}
		}
		after := w
		after.Table = d.edit(w.Table)
		if !spares(dataplane.Delta{Before: w.Table, After: after.Table}) {
			continue
		}
		spared++
		for _, f := range Stale(after, right) {
			t.Fatalf("seed %d: %s: stale, %s", seed, f.Flow, f.Reason)
		}
	}
	if spared < 200 || spared > 1800 {
		t.Errorf("%d of 2000 changes are said to spare all flows", spared)
	}
}

func TestSparesWhat(t *testing.T) {
	table := func(verdict dataplane.Verdict, endpoints ...string) dataplane.Table {
		b := newTable()
		route := dataplane.Route{Verdict: verdict}
		if verdict == dataplane.Forward {
			route = b.set("web", dataplane.UDP, endpoints...)
		}
		b.frontend(dataplane.ClusterIP, vip, dataplane.UDP, route)
		return b.Table
	}
	one, two, refused := table(dataplane.Forward, p2), table(dataplane.Forward, p2, p3), table(dataplane.Refuse)
	for _, tc := range []struct {
		name          string
		before, after dataplane.Table
		want          bool
	}{
		{"nothing", one, one, true},
		{"an endpoint more", one, two, true},
		{"an endpoint less", two, one, false},
		{"the first endpoint", refused, one, false},
		{"the last one gone", one, refused, false},
		{"still none", refused, refused, true},
		{"the Service comes", dataplane.Table{}, one, false},
		{"the Service goes", one, dataplane.Table{}, false},
	} {
		if got := spares(dataplane.Delta{Before: tc.before, After: tc.after}); got != tc.want {
			t.Errorf("%s: spares %t, want %t", tc.name, got, tc.want)
		}
	}
}
