package dns

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/cluster"
)

// large are the events of 10,000 Services of 10 endpoints each, every tenth headless,
// and the Pods behind them.
func large(services, endpoints int) []cluster.Event {
	var events []cluster.Event
	vip, addr := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.128.0.1")
	for i := range services {
		name, ip := fmt.Sprintf("service-%d.namespace-%d", i, i%100), vip.String()
		if i%10 == 0 {
			ip = "None"
		}
		var list []string
		for j := range endpoints {
			e := addr.String()
			events = append(events, came(pod(fmt.Sprintf("pod-%d-%d.namespace-%d", i, j, i%100), e))...)
			if i%10 == 0 {
				e += fmt.Sprintf("=service-%d-%d", i, j)
			}
			list, addr = append(list, e), addr.Next()
		}
		events = append(events, came(svc(name, ip, "http:80"), eps(name, "abcde", "http:8080", list...))...)
		vip = vip.Next()
	}
	return events
}

func BenchmarkAnswer(b *testing.B) {
	z := newZone()
	z.Load(large(10_000, 10), noon)
	z.Load(came(svc("big", "None"), eps("big", "a", "http:80", manyAddrs(1000)...)), noon)
	for _, tc := range []struct {
		name, question string
		qtype          uint16
	}{
		{"ClusterIP", "service-5001.namespace-1.svc.cluster.local.", mdns.TypeA},
		{"MixedCase", "Service-5001.Namespace-1.svc.Cluster.Local.", mdns.TypeA},
		{"NoName", "service-5001.namespace-1.svc.cluster.local.namespace-1.svc.cluster.local.", mdns.TypeA},
		{"NoData", "service-5001.namespace-1.svc.cluster.local.", mdns.TypeAAAA},
		{"Headless10", "service-5000.namespace-0.svc.cluster.local.", mdns.TypeA},
		{"Headless1000", "big.default.svc.cluster.local.", mdns.TypeA},
		{"EndpointOf1000", "10-2-3-200.big.default.svc.cluster.local.", mdns.TypeA},
		{"Port10", "_http._tcp.service-5000.namespace-0.svc.cluster.local.", mdns.TypeSRV},
		{"Pod", "10-128-0-99.namespace-9.pod.cluster.local.", mdns.TypeA},
		{"Reverse", "99.0.128.10.in-addr.arpa.", mdns.TypePTR},
	} {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			q := mdns.Question{Name: tc.question, Qtype: tc.qtype, Qclass: mdns.ClassINET}
			if a := z.Answer(q); !a.Ours || tc.name[:2] != "No" && len(a.Answer) == 0 {
				b.Fatalf("%+v", a)
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					z.Answer(q)
				}
			})
		})
	}
}

func manyAddrs(n int) []string {
	var out []string
	for addr := netip.MustParseAddr("10.2.0.0"); len(out) < n; addr = addr.Next() {
		out = append(out, addr.String())
	}
	return out
}

// BenchmarkMemory tells what a zone of 10,000 Services, 100,000 endpoints and as many
// Pods keeps.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		events := large(10_000, 10)
		before := heap()
		b.StartTimer()
		z := newZone()
		z.Load(events, noon)
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/1e6, "MB")
		runtime.KeepAlive(events)
		runtime.KeepAlive(z)
		b.StartTimer()
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkFill tells what it takes to begin, with and without telling the records.
func BenchmarkFill(b *testing.B) {
	events := large(10_000, 10)
	b.Run("Load", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			newZone().Load(events, noon)
		}
	})
	b.Run("Apply", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			newZone().Apply(events, noon)
		}
	})
}

// BenchmarkApply tells what one changed EndpointSlice costs, with what is told of it.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			z := newZone()
			z.Load(large(1000, 10), noon)
			addrs := manyAddrs(n)
			all, fewer := came(eps("big", "a", "http:80", addrs...)), came(eps("big", "a", "http:80", addrs[1:]...))
			z.Load(append(came(svc("big", "10.96.200.1", "http:80")), all...), noon)
			for b.Loop() {
				z.Apply(fewer, noon)
				z.Apply(all, noon)
			}
		})
	}
}
