package ipvs

import (
	"context"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// BenchmarkMemory measures how large a process gets that loads 10,000 Services of ten
// endpoints from nothing, its table among it, then makes a whole pass that changes
// nothing, and what it remembers. It says something only in a process of its own.
func BenchmarkMemory(b *testing.B) {
	lab.Require(b, lab.Namespaces, lab.IPVS, lab.IPSet)
	node := lab.New(b, lab.WithPods(0)).Node
	for b.Loop() {
		tab := many(10_000)
		before := heap()
		f := New(Config{StateDir: b.TempDir(), Families: []dataplane.Family{dataplane.IPv4}}).Follow()
		for _, phase := range []string{"load", "unchanged"} {
			node.Do(func() {
				p, err := f.Plan(context.Background(), tab)
				if err == nil {
					err = p.Apply(context.Background())
				}
				if err != nil {
					b.Fatal(err)
				}
			})
			b.ReportMetric(peak(b), "MB-peak-"+phase)
			b.ReportMetric(float64(heap()-before)/1e6, "MB-remembered-"+phase)
		}
		runtime.KeepAlive(tab)
		runtime.KeepAlive(f)
	}
}

// peak is the most memory that the process has had, in megabytes.
func peak(b *testing.B) float64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Maxrss) * 1024 / 1e6
}
