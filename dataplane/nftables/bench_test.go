package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// sizes are the numbers of Services that benchmarks run with, each with ten
// endpoints.
var sizes = [...]int{100, 1000, 10_000}

// BenchmarkBuild measures the way from a table to all that the kernel has to
// hold.
func BenchmarkBuild(b *testing.B) {
	for _, n := range sizes {
		table := tables.Many(n, 10)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				build(table, dataplane.IPv4)
			}
		})
	}
}

// BenchmarkKernel measures what needs a kernel, in a namespace of its own: to
// load everything from nothing, to find that nothing has to change, to plan and
// write one changed endpoint, and the write alone.
func BenchmarkKernel(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkKernel(b, n) })
	}
}

func benchmarkKernel(b *testing.B, n int) {
	backend, table := New(Config{Families: []dataplane.Family{dataplane.IPv4}}), tables.Many(n, 10)
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			node := newLab(b, lab.WithPods(0)).Node
			b.StartTimer()
			node.Do(func() { pass(b, backend, table, -1) })
		}
	})
	node := newLab(b, lab.WithPods(0)).Node
	node.Do(func() { pass(b, backend, table, -1) })
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			node.Do(func() { pass(b, backend, table, 0) })
		}
	})
	b.Run("one-endpoint", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			table.Sets[n/2].Endpoints[3].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 9, byte(i)}), 8080)
			node.Do(func() { pass(b, backend, table, 1) })
		}
	})
	b.Run("write", func(b *testing.B) { node.Do(func() { benchmarkWrite(b, table, n/2) }) })
}

// benchmarkWrite moves one endpoint to and fro and measures the transaction
// alone, on a socket that stays open.
func benchmarkWrite(b *testing.B, table dataplane.Table, at int) {
	s, err := open()
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	have, err := s.read(b.Context(), dataplane.IPv4)
	if err != nil {
		b.Fatal(err)
	}
	eps := table.Sets[at].Endpoints
	eps[3].Addr = netip.MustParseAddrPort("10.244.10.1:8080")
	to, err := difference(build(table, dataplane.IPv4), have)
	if err != nil || len(to.changes()) != 1 {
		b.Fatalf("%v, %d changes", err, len(to.changes()))
	}
	// Back is the same with both sides of the pair exchanged.
	pair := to.sets[0].replace[0]
	back := to
	back.sets = []setDelta{{set: to.sets[0].set, replace: [][2]element{{pair[1], pair[0]}}}}
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if err := s.apply(b.Context(), []delta{to, back}[i%2]); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
}

// pass plans and applies, and requires a number of changes unless it is negative.
func pass(b *testing.B, backend *Backend, table dataplane.Table, changes int) {
	p, err := backend.Plan(b.Context(), table)
	if err != nil {
		b.Fatal(err)
	}
	if changes >= 0 {
		if got := len(p.Changes()); got != changes {
			b.Fatalf("%d changes, want %d", got, changes)
		}
	}
	if err := p.Apply(b.Context()); err != nil {
		b.Fatal(err)
	}
}
