package nftables

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// BenchmarkFollow measures a change of one endpoint in each of some Services,
// among many, from the delta to the kernel. An endpoint is replaced; or one is
// added, each time in other Services; or one comes and goes, in turn, in Services
// as large as others or ("class") as no other. p50-µs and p99-µs are until packets go where they ought to; ns/op is until the kernel
// holds nothing more that is not wanted, which takes a pause after an endpoint
// has gone: what comes next begins with cold caches. cpu-µs/change is what process
// and kernel have worked for one Service.
func BenchmarkFollow(b *testing.B) {
	for _, n := range sizes {
		for _, services := range []int{1, 100, 1000} {
			if services > n {
				continue
			}
			for _, mode := range []string{"replaced", "added", "more-less", "class"} {
				b.Run(fmt.Sprintf("%d/%d/%s", n, services, mode), func(b *testing.B) {
					node := newLab(b, lab.WithPods(0)).Node
					node.Do(func() { benchmarkFollow(b, n, services, mode) })
				})
			}
		}
	}
}

func benchmarkFollow(b *testing.B, n, services int, mode string) {
	table := tables.Many(n, 10)
	if mode != "class" {
		tables.Fill(&table, n, netip.MustParseAddrPort("10.97.0.1:80"), podNames(11)...) // so that their class is there
	}
	table.Sort()
	f := New(Config{Families: []dataplane.Family{dataplane.IPv4}}).Follow().(*follower)
	defer f.Close()
	p, err := f.Plan(b.Context(), table)
	if err == nil {
		err = p.Apply(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	var there, back []dataplane.Delta
	frontends := map[string]dataplane.Frontend{}
	for _, fe := range table.Frontends {
		frontends[fe.Routes[0].Set] = fe
	}
	for at := 0; at+services <= n; at += services {
		d, r := oneEach(table.Sets[at:][:services], frontends, mode == "replaced")
		there, back = append(there, d), append(back, r)
		if mode != "added" {
			break
		}
	}
	var took []time.Duration
	timed := func(d dataplane.Delta) {
		start := time.Now()
		took = append(took, f.benchmark(b, d).Sub(start))
	}
	start, away := cpu(b), time.Duration(0)
	for i := 0; b.Loop(); i++ {
		if mode != "added" {
			timed([]dataplane.Delta{there[0], back[0]}[i%2])
			continue
		}
		timed(there[i%len(there)])
		if i%len(there) == len(there)-1 {
			b.StopTimer()
			since := cpu(b)
			for _, d := range back {
				f.benchmark(b, d)
			}
			away += cpu(b) - since
			b.StartTimer()
		}
	}
	slices.Sort(took)
	b.ReportMetric(micros(took[len(took)/2]), "p50-µs")
	b.ReportMetric(micros(took[len(took)*99/100]), "p99-µs")
	b.ReportMetric(micros(cpu(b)-start-away)/float64(b.N*services), "cpu-µs/change")
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// benchmark is PlanChange and Apply; it returns the moment between their two
// halves.
func (f *follower) benchmark(b *testing.B, d dataplane.Delta) time.Time {
	planned, err := f.PlanChange(b.Context(), d)
	if err != nil {
		b.Fatal(err)
	}
	p := planned.(*changePlan)
	f.pending, f.socket.guard = nil, f.generation
	all := make([]stages, len(p.deltas))
	for i := range p.deltas {
		all[i] = p.deltas[i].stages()
	}
	err = f.socket.commit(b.Context(), p.deltas, all)
	committed := time.Now()
	if err == nil {
		err = f.socket.cleanUp(b.Context(), p.deltas, all)
	}
	if err != nil {
		b.Fatal(err)
	}
	f.generation = f.socket.guard
	p.remember()
	return committed
}

// oneEach are the change of one endpoint in each of some sets, and the way back.
// The frontends are by their sets.
func oneEach(sets []dataplane.EndpointSet, frontends map[string]dataplane.Frontend, replaced bool) (there, back dataplane.Delta) {
	before, after := dataplane.Table{Node: tables.Node()}, dataplane.Table{Node: tables.Node()}
	for _, s := range sets {
		before.Sets = append(before.Sets, s)
		before.Frontends = append(before.Frontends, frontends[s.Name])
		extra := dataplane.Endpoint{Addr: netip.MustParseAddrPort("10.250.0.1:8080"), Weight: 1}
		s.Endpoints = slices.Clone(s.Endpoints)
		if replaced {
			s.Endpoints[9] = extra
		} else {
			s.Endpoints = append(s.Endpoints, extra)
		}
		after.Sets = append(after.Sets, s)
	}
	before.Sort()
	after.Frontends = before.Frontends
	return dataplane.Delta{Before: before, After: after}, dataplane.Delta{Before: after, After: before}
}

// BenchmarkMemory measures what a follower remembers, and how large the process
// gets that loads all from nothing, its table among it. It says something only in
// a process of its own.
func BenchmarkMemory(b *testing.B) {
	node := newLab(b, lab.WithPods(0)).Node
	for b.Loop() {
		table := tables.Many(10_000, 10)
		before := heap()
		f := New(Config{Families: []dataplane.Family{dataplane.IPv4}}).Follow().(*follower)
		node.Do(func() {
			p, err := f.Plan(b.Context(), table)
			if err == nil {
				err = p.Apply(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
		})
		b.ReportMetric(float64(heap()-before)/1e6, "MB-remembered")
		b.ReportMetric(peak(b), "MB-peak")
		runtime.KeepAlive(table)
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// heap is what is in use after all garbage has gone.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
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
