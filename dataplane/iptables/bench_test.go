package iptables

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// sizes are the numbers of Services that benchmarks run with, each with ten
// endpoints.
var sizes = [...]int{100, 1000, 10_000}

// BenchmarkRender measures the way from a table to the text of all rules.
func BenchmarkRender(b *testing.B) {
	for _, n := range sizes {
		table := tables.Many(n, 10)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if text, err := New(Config{}).Render(table); err != nil || text == "" {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParse measures reading back what the kernel holds.
func BenchmarkParse(b *testing.B) {
	for _, n := range sizes {
		text := []byte(saved(Ruleset(tables.Many(n, 10), dataplane.IPv4, true)))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := xtables.Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDiff measures the comparison when one endpoint differs.
func BenchmarkDiff(b *testing.B) {
	for _, n := range sizes {
		have := stateOf(b, Ruleset(tables.Many(n, 10), dataplane.IPv4, true))
		table := tables.Many(n, 10)
		endpointOf(&table, "s77").Addr = netip.MustParseAddrPort("10.244.9.9:8080")
		want := Ruleset(table, dataplane.IPv4, true)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if d := xtables.Diff(want, have); len(d.Edits) != 1 {
					b.Fatalf("%d chains change", len(d.Edits))
				}
			}
		})
	}
}

// BenchmarkKernel measures what needs a kernel, in a namespace of its own for
// each engine: to load all rules from nothing, to find that nothing has to
// change, and to plan and write one changed endpoint, each by a whole pass. Beside
// the time it reports what this process and its children take of the processor.
func BenchmarkKernel(b *testing.B) {
	for _, e := range []xtables.Engine{xtables.NFT, xtables.Legacy} {
		for _, n := range sizes[1:] {
			b.Run(fmt.Sprintf("%s/%d", e, n), func(b *testing.B) { benchmarkKernel(b, e, n) })
		}
	}
}

func benchmarkKernel(b *testing.B, e xtables.Engine, n int) {
	lab.Require(b, lab.Namespaces)
	backend, table := New(Config{Engine: e, Families: []dataplane.Family{dataplane.IPv4}}), tables.Many(n, 10)
	b.Run("load", func(b *testing.B) {
		var m meter
		for b.Loop() {
			b.StopTimer()
			node := lab.New(b, lab.WithPods(0)).Node
			b.StartTimer()
			m.run(b, func() { node.Do(func() { pass(b, backend, table, -1) }) })
		}
		m.report(b)
	})
	node := lab.New(b, lab.WithPods(0)).Node
	node.Do(func() { pass(b, backend, table, -1) })
	b.Run("unchanged", func(b *testing.B) {
		var m meter
		for b.Loop() {
			m.run(b, func() { node.Do(func() { pass(b, backend, table, 0) }) })
		}
		m.report(b)
	})
	b.Run("one-endpoint", func(b *testing.B) {
		var m meter
		for i := 0; b.Loop(); i++ {
			endpointOf(&table, "s77").Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 9, byte(i)}), 8080)
			m.run(b, func() { node.Do(func() { pass(b, backend, table, 1) }) })
		}
		m.report(b)
	})
}

// meter adds up the seconds of the processor that this process and its children
// take: other work on the machine does not count.
type meter struct{ own, children float64 }

func (m *meter) run(b *testing.B, f func()) {
	own, children := seconds(b, syscall.RUSAGE_SELF), seconds(b, syscall.RUSAGE_CHILDREN)
	f()
	m.own += seconds(b, syscall.RUSAGE_SELF) - own
	m.children += seconds(b, syscall.RUSAGE_CHILDREN) - children
}

func (m *meter) report(b *testing.B) {
	b.ReportMetric(m.own/float64(b.N), "cpu-s/op")
	b.ReportMetric(m.children/float64(b.N), "child-cpu-s/op")
}

func seconds(b *testing.B, who int) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkFollow measures one changed endpoint on the way of a follower: the
// plan alone, and the plan with its write by each engine.
func BenchmarkFollow(b *testing.B) {
	for _, n := range sizes[1:] {
		b.Run(fmt.Sprintf("plan/%d", n), func(b *testing.B) {
			table := tables.Many(n, 10)
			_, m := remember(table.ForFamily(dataplane.IPv4), dataplane.IPv4, means{randomFully: true})
			service := firstService(table)
			for i := 0; b.Loop(); i++ {
				if d, err := m.change(nextEndpoint(service, i)); err != nil || len(d.Edits) != 1 {
					b.Fatal(err, len(d.Edits))
				}
			}
		})
		for _, e := range []xtables.Engine{xtables.NFT, xtables.Legacy} {
			b.Run(fmt.Sprintf("%s/%d", e, n), func(b *testing.B) { benchmarkFollow(b, e, n) })
		}
	}
}

func benchmarkFollow(b *testing.B, e xtables.Engine, n int) {
	lab.Require(b, lab.Namespaces)
	f, table := New(Config{Engine: e, Families: []dataplane.Family{dataplane.IPv4}}).Follow(), tables.Many(n, 10)
	node := lab.New(b, lab.WithPods(0)).Node
	apply := func(p dataplane.Plan, err error) {
		if err == nil {
			err = p.Apply(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	node.Do(func() { apply(f.Plan(b.Context(), table)) })
	service, m := firstService(table), meter{}
	for i := 0; b.Loop(); i++ {
		was, is := nextEndpoint(service, i)
		m.run(b, func() {
			node.Do(func() { apply(f.PlanChange(b.Context(), dataplane.Delta{Before: was, After: is})) })
		})
	}
	m.report(b)
}

// firstService is the part of a table that the first Service has.
func firstService(t dataplane.Table) dataplane.Table {
	out := dataplane.Table{Node: t.Node, Sets: t.Sets[:1]}
	for _, fe := range t.Frontends {
		if fe.Service == t.Sets[0].Service {
			out.Frontends = append(out.Frontends, fe)
		}
	}
	return out
}

// nextEndpoint gives a Service another endpoint, and returns what it had and what
// it has.
func nextEndpoint(service dataplane.Table, i int) (before, after dataplane.Table) {
	at := func(i int) dataplane.Table {
		out, s := service, service.Sets[0]
		s.Endpoints = append([]dataplane.Endpoint(nil), s.Endpoints...)
		if i > 0 {
			s.Endpoints[0].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), 8080)
		}
		out.Sets = []dataplane.EndpointSet{s}
		return out
	}
	return at(i), at(i + 1)
}

// pass plans and applies, and requires a number of changes unless it is negative.
func pass(b *testing.B, backend *Backend, table dataplane.Table, changes int) {
	p, err := backend.Plan(b.Context(), table)
	if err != nil {
		b.Fatal(err)
	}
	if got := len(p.Changes()); changes >= 0 && got != changes {
		b.Fatalf("%d changes, want %d", got, changes)
	}
	if err := p.Apply(b.Context()); err != nil {
		b.Fatal(err)
	}
}
