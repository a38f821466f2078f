package ipvs_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// BenchmarkKernel measures what needs a kernel with IPVS, in a namespace of its
// own: to make everything from nothing, to find that nothing has to change, and
// to plan and make one changed endpoint, with Services of ten endpoints each: by a
// pass, and as who follows the table by its changes.
func BenchmarkKernel(b *testing.B) {
	for _, n := range [...]int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkKernel(b, n) })
	}
}

func benchmarkKernel(b *testing.B, n int) {
	lab.Require(b, lab.Namespaces, lab.IPVS, lab.IPSet)
	backend := ipvs.New(ipvs.Config{StateDir: b.TempDir(), Families: []dataplane.Family{dataplane.IPv4}})
	t := newTable()
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, 96, byte(i / 250), byte(1 + i%250)})
		t.Frontends, t.Sets = append(t.Frontends, frontendOf(i, addr)), append(t.Sets, setOf(i))
	}
	t.Sort()
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			node := lab.New(b, lab.WithPods(0)).Node
			b.StartTimer()
			node.Do(func() { pass(b, backend, t.Table, -1) })
		}
	})
	node := lab.New(b, lab.WithPods(0)).Node
	node.Do(func() { pass(b, backend, t.Table, -1) })
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			node.Do(func() { pass(b, backend, t.Table, 0) })
		}
	})
	b.Run("one-endpoint", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			t.Sets[n/2].Endpoints[3].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 9, byte(i)}), 8080)
			node.Do(func() { pass(b, backend, t.Table, 2) })
		}
	})
	b.Run("change", func(b *testing.B) {
		node.Do(func() {
			f := backend.Follow()
			if _, err := f.Plan(context.Background(), t.Table); err != nil {
				b.Fatal(err)
			}
			follow(b, f, t.Table)
		})
	})
}

// follow measures one changed endpoint, out of memory.
func follow(b *testing.B, f dataplane.Follower, t dataplane.Table) {
	i := len(t.Frontends) / 2
	set, ok := t.Set(t.Frontends[i].Service)
	if !ok {
		b.Fatalf("no set %q", t.Frontends[i].Service)
	}
	side := func(round int) dataplane.Table {
		s := set
		s.Endpoints = append(set.Endpoints[1:len(set.Endpoints):len(set.Endpoints)],
			dataplane.Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 199, byte(round / 250), byte(1 + round%250)}), 8080), Weight: 1})
		return dataplane.Table{Node: t.Node, Frontends: t.Frontends[i : i+1], Sets: []dataplane.EndpointSet{s}}
	}
	before := dataplane.Table{Node: t.Node, Frontends: t.Frontends[i : i+1], Sets: []dataplane.EndpointSet{set}}
	b.ResetTimer()
	for round := 0; b.Loop(); round++ {
		d := dataplane.Delta{Before: before, After: side(round)}
		p, err := f.PlanChange(context.Background(), d)
		if err != nil {
			b.Fatal(err)
		}
		if got := len(p.Changes()); got != 2 {
			b.Fatalf("%d changes, want 2", got)
		}
		if err := p.Apply(context.Background()); err != nil {
			b.Fatal(err)
		}
		before = d.After
	}
}

// frontendOf is the ClusterIP of Service i.
func frontendOf(i int, addr netip.Addr) dataplane.Frontend {
	fe := dataplane.Frontend{Key: dataplane.Key{Addr: addr, Protocol: dataplane.TCP, Port: 80}, Service: fmt.Sprintf("default/s%d:http", i)}
	for s := range fe.Routes {
		fe.Routes[s] = dataplane.Route{Set: fe.Service, Masquerade: dataplane.Source(s) != dataplane.FromPod}
	}
	return fe
}

// setOf is the ten endpoints of Service i, which live elsewhere.
func setOf(i int) dataplane.EndpointSet {
	name := fmt.Sprintf("default/s%d:http", i)
	s := dataplane.EndpointSet{Name: name, Service: name, Protocol: dataplane.TCP}
	for e := range 10 {
		a := netip.AddrFrom4([4]byte{10, byte(200 + e), byte(i / 250), byte(1 + i%250)})
		s.Endpoints = append(s.Endpoints, dataplane.Endpoint{Addr: netip.AddrPortFrom(a, 8080), Weight: 1})
	}
	return s
}

// pass plans and applies, and requires a number of changes unless it is negative.
func pass(b *testing.B, backend *ipvs.Backend, t dataplane.Table, changes int) {
	p, err := backend.Plan(context.Background(), t)
	if err != nil {
		b.Fatal(err)
	}
	if got := len(p.Changes()); changes >= 0 && got != changes {
		b.Fatalf("%d changes, want %d", got, changes)
	}
	if err := p.Apply(context.Background()); err != nil {
		b.Fatal(err)
	}
}
