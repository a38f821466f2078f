package nftables

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestAnyToAny proves that from any table to any other the changes are such as
// the kernel takes, lead to what a table from nothing leads to, and that at no
// moment between two transactions, were each change one, a frontend that serves
// before and after does not serve, or leads to endpoints that it never had.
func TestAnyToAny(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := newFake(dataplane.IPv4)
		before := few(anyTable(rt))
		change(rt, k, build(before, dataplane.IPv4), func() {})
		for range 3 {
			after := before
			if rapid.Bool().Draw(rt, "anew") {
				after = few(anyTable(rt))
			} else {
				after = mutated(rt, before)
			}
			w := watch{before, after, rapid.SampledFrom(after.Frontends).Draw(rt, "watched").Key}
			change(rt, k, build(after, dataplane.IPv4), func() { w.check(rt, k) })
			before = after
		}
		change(rt, k, layout{family: dataplane.IPv4}, func() {})
		if k.exists {
			rt.Fatalf("something is left")
		}
	})
}

// few keeps a part of the frontends: every transaction is looked at.
func few(t dataplane.Table) dataplane.Table {
	t.Frontends = t.Frontends[:min(len(t.Frontends), 30)]
	return t
}

// change leads the fake kernel to a layout and requires that it is there then.
func change(t fataler, k *fake, want layout, between func()) {
	t.Helper()
	d, err := difference(want, k.read())
	if err == nil {
		err = k.apply(d, between)
	}
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	left, err := difference(want, k.read())
	if err != nil || !left.empty() {
		t.Fatalf("still to do: %v, %v", left.changes(), err)
	}
	for _, s := range want.sets {
		if n := len(k.held[s.name]); s.kind != clients && n != s.len() {
			t.Fatalf("set %s has %d elements, want %d", s.name, n, s.len())
		}
	}
}

// mutated changes a few things of a table.
func mutated(t *rapid.T, table dataplane.Table) dataplane.Table {
	out := table
	out.Frontends = append([]dataplane.Frontend(nil), table.Frontends...)
	out.Sets = append([]dataplane.EndpointSet(nil), table.Sets...)
	i := rapid.IntRange(0, len(out.Sets)-1).Draw(t, "set")
	n := rapid.IntRange(1, len(out.Sets[i].Endpoints)).Draw(t, "kept")
	out.Sets[i].Endpoints = append([]dataplane.Endpoint(nil), out.Sets[i].Endpoints[:n]...)
	extra := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 200}), 8080)
	out.Sets[i].Endpoints = append(out.Sets[i].Endpoints, dataplane.Endpoint{Addr: extra, Weight: 1})
	j := rapid.IntRange(0, len(out.Frontends)-1).Draw(t, "frontend")
	out.Frontends[j].Routes[rapid.IntRange(0, 2).Draw(t, "source")].Masquerade = rapid.Bool().Draw(t, "masquerade")
	if len(out.Frontends) > 1 && rapid.Bool().Draw(t, "remove") {
		out.Frontends = append(out.Frontends[:j:j], out.Frontends[j+1:]...)
	}
	return out
}

// watch looks at one frontend between transactions.
type watch struct {
	before, after dataplane.Table
	key           dataplane.Key
}

func (w watch) check(t fataler, k *fake) {
	t.Helper()
	if w.key.Addr.IsUnspecified() {
		w.key.Addr = netip.MustParseAddr("192.0.2.1")
	}
	p := tables.Packet{Src: netip.MustParseAddr("198.51.100.1"), Dst: w.key.Addr, Protocol: w.key.Protocol, Port: w.key.Port}
	was, will := tables.Expect(w.before, p), tables.Expect(w.after, p)
	if !forwards(was) || !forwards(will) || !reflect.DeepEqual(w.before.Node, w.after.Node) {
		return
	}
	known := endpointsOf(w.before, p) + endpointsOf(w.after, p)
	for fate := range tables.FatesOf(newWalker(k.read().layout(k.family)).walk(p.On(w.after.Node))) {
		to := strings.TrimSuffix(fate, " masquerade")
		if !strings.Contains(known, to+"\n") {
			t.Fatalf("%s: %s between transactions; before %v, after %v", p, fate, was, will)
		}
	}
}

func forwards(fates map[string]float64) bool {
	for fate := range fates {
		if !strings.HasPrefix(fate, "forward ") {
			return false
		}
	}
	return true
}

// endpointsOf lists all endpoints that a packet's frontend leads any source to.
func endpointsOf(t dataplane.Table, p tables.Packet) string {
	out := ""
	for _, src := range []string{"10.244.0.1", "10.244.7.9", "192.0.2.1", "198.51.100.1"} {
		p.Src = netip.MustParseAddr(src)
		for fate := range tables.Expect(t, p) {
			out += strings.TrimSuffix(fate, " masquerade") + "\n"
		}
	}
	return out
}

// TestOneEndpoint proves how few elements change with one endpoint.
func TestOneEndpoint(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*dataplane.EndpointSet)
		want   []string // op and set of each change
	}{
		{"replaced", func(s *dataplane.EndpointSet) { s.Endpoints[4].Addr = netip.MustParseAddrPort("10.244.9.9:8080") },
			[]string{"~ map endpoints"}},
		{"added", func(s *dataplane.EndpointSet) {
			s.Endpoints = append([]dataplane.Endpoint{{Addr: netip.MustParseAddrPort("10.1.1.1:80"), Weight: 1}}, s.Endpoints...)
		}, []string{"+ map endpoints", "+ set svc11", "- set svc10"}},
		{"removed", func(s *dataplane.EndpointSet) { s.Endpoints = append(s.Endpoints[:2:2], s.Endpoints[3:]...) },
			[]string{"~ map endpoints", "+ set svc9", "- set svc10", "- map endpoints"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, table := newFake(dataplane.IPv4), tables.Many(500, 10)
			many := table
			for _, n := range []int{9, 11} { // so that their classes are there
				tables.Fill(&many, 9000+n, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 97, 0, byte(n)}), 80), podNames(n)...)
			}
			many.Sort()
			change(t, k, build(many, dataplane.IPv4), func() {})
			tc.change(&many.Sets[77])
			d, err := difference(build(many, dataplane.IPv4), k.read())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range d.changes() {
				f := strings.Fields(c.Object)
				got = append(got, strings.Join([]string{string(c.Op), f[5], f[6]}, " "))
				if c.For != many.Sets[77].Service {
					t.Errorf("%s is for another Service", c)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("changes %q, want %q", got, tc.want)
			}
			if err := k.apply(d, func() {}); err != nil {
				t.Error(err)
			}
		})
	}
}

func podNames(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("10.244.3.%d:80", i+1))
	}
	return out
}
