package nftables

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
// load everything from nothing, to find that nothing has to change (what a
// process does that was started anew), and to plan and write one changed endpoint
// by a pass over all. cpu-ms is what process and kernel have worked, which other
// work on the machine changes less than the time that went by.
func BenchmarkKernel(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkKernel(b, n) })
	}
}

func benchmarkKernel(b *testing.B, n int) {
	table := tables.Many(n, 10)
	var node *lab.Host
	timed := func(changes int) (worked time.Duration) {
		node.Do(func() {
			start := cpu(b)
			pass(b, New(Config{Families: []dataplane.Family{dataplane.IPv4}}), table, changes)
			worked = cpu(b) - start
		})
		return worked
	}
	report := func(b *testing.B, worked time.Duration) {
		b.ReportMetric(float64(worked.Microseconds())/1e3/float64(b.N), "cpu-ms")
	}
	b.Run("load", func(b *testing.B) {
		var worked time.Duration
		for b.Loop() {
			b.StopTimer()
			node = newLab(b, lab.WithPods(0)).Node
			runtime.GC()
			b.StartTimer()
			worked += timed(-1)
		}
		report(b, worked)
	})
	node = newLab(b, lab.WithPods(0)).Node
	timed(-1)
	b.Run("unchanged", func(b *testing.B) {
		var worked time.Duration
		for b.Loop() {
			worked += timed(0)
		}
		report(b, worked)
	})
	b.Run("one-endpoint", func(b *testing.B) {
		var worked time.Duration
		for i := 0; b.Loop(); i++ {
			table.Sets[n/2].Endpoints[3].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 9, byte(i)}), 8080)
			worked += timed(1)
		}
		report(b, worked)
	})
}

// cpu is how long this process has worked, in the kernel too.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
