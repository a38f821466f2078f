package follow

import (
	"fmt"
	"os"
	"testing"

	"github.com/toyproxy/toyproxy/cluster"
)

// BenchmarkFirst is what it costs to read 1,000 objects at the start.
func BenchmarkFirst(b *testing.B) {
	dir := os.Getenv("BENCH_STATE")
	if dir == "" {
		dir = b.TempDir()
		for i := range 1000 {
			if _, err := services(dir).Save(service(fmt.Sprintf("s%d", i), "10.0.0.1")); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		d, err := OpenLean(dir, cluster.Service, cluster.Pod, cluster.EndpointSlice, cluster.Namespace)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for {
			events, err := d.Catch()
			if err != nil {
				b.Fatal(err)
			}
			if n += len(events); len(events) == 0 {
				break
			}
		}
		b.ReportMetric(float64(n), "objects")
		_ = d.Close()
	}
}

// BenchmarkNothing is what a query pays when nothing has changed.
func BenchmarkNothing(b *testing.B) {
	d, err := OpenLean(b.TempDir(), cluster.Service, cluster.Pod)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for b.Loop() {
		if events, err := d.Catch(); len(events) > 0 || err != nil {
			b.Fatal(events, err)
		}
	}
}
