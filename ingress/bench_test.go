package ingress

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// manyHosts returns objects of n hosts with three paths each.
func manyHosts(n int) []*networkingv1.Ingress {
	out := make([]*networkingv1.Ingress, n)
	for i := range out {
		var rules []string
		for j := range 3 {
			rules = append(rules, fmt.Sprintf("h%d.example /v%d/x P s", i, j))
		}
		out[i] = ing(fmt.Sprintf("i%d", i), 1, rules...)
	}
	return out
}

// lookups returns a function that looks up 1,000 requests over all hosts.
func lookups(t testing.TB, hosts int) func() {
	r := NewRouter(compile(manyHosts(hosts)...).Config)
	var requests []Request
	for i := range 1000 {
		p, err := ParsePath(fmt.Sprintf("/v%d/x/y/z.html", i%3))
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, Request{Host: fmt.Sprintf("h%d.example:80", i*7919%hosts), Path: p, Method: "GET"})
	}
	return func() {
		for _, req := range requests {
			if r.Lookup(80, req).Route == nil {
				t.Fatal("a request meets nothing")
			}
		}
	}
}

// fastest is the shortest of many times, which load on the machine does not touch.
func fastest(f func()) time.Duration {
	best := time.Hour
	for range 20 {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best
}

// TestLookupCost: a request costs as much among 10,000 hosts as among one, but for the memory
// that is further away; a search through the list would cost 10,000 times more.
func TestLookupCost(t *testing.T) {
	one, many := lookups(t, 1), lookups(t, 10_000)
	ratio := float64(fastest(many)) / float64(fastest(one))
	t.Logf("10,000 hosts cost %.1f times what one does", ratio)
	if ratio > 20 {
		t.Errorf("10,000 hosts cost %.1f times what one does", ratio)
	}
	if a, b := testing.AllocsPerRun(5, one), testing.AllocsPerRun(5, many); a != b || a > 2000 {
		t.Errorf("a thousand requests allocate %v times among one host, and %v among many", a, b)
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, hosts := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			f := lookups(b, hosts)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/request")
		})
	}
}

func BenchmarkParsePath(b *testing.B) {
	for _, path := range []string{"/v1/users/7/orders", "/v1/%75sers/../users//7"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParsePath(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	in := Input{Ingresses: manyHosts(10_000), Services: []*corev1.Service{service("s", port("", 80, 80))}}
	for b.Loop() {
		NewRouter(Compile(in).Config)
	}
}
