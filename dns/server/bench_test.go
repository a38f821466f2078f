package server

import (
	"fmt"
	"testing"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/follow"
	"github.com/toyproxy/toyproxy/dns"
)

// BenchmarkQuery is what one query costs but for the socket, with 10,000 Services: the
// look at the state directory included.
func BenchmarkQuery(b *testing.B) {
	source, err := follow.OpenLean(b.TempDir(), cluster.Service, cluster.EndpointSlice, cluster.Pod, cluster.Namespace, cluster.Node)
	if err != nil {
		b.Fatal(err)
	}
	zone := dns.New(dns.Options{Domain: "cluster.local", TTL: 5})
	cfg := Config{Domain: "cluster.local", Zone: zone, Source: source, AllowAll: true, UDPBytes: 1232, Metrics: NewMetrics(":53", "cluster.local")}
	s := &Server{config: cfg, access: newAccess(cfg), journal: newQueryLog(LogOff, nil)}
	s.live = &live{config: cfg, access: s.access}
	s.live.catch()
	var packets [][]byte
	for i := range 10_000 {
		svc := service(fmt.Sprintf("svc-%d", i), fmt.Sprintf("10.96.%d.%d", i/200, i%200+1))
		cfg.Zone.Apply([]cluster.Event{{Object: cluster.MakeRef(cluster.Service, svc.Namespace, svc.Name), New: svc}}, s.live.toldAt)
		packet, err := query(svc.Name+".default.svc.cluster.local", mdns.TypeA).Pack()
		if err != nil {
			b.Fatal(err)
		}
		packets = append(packets, packet)
	}
	b.ReportAllocs()
	out := make([]byte, mdns.MaxMsgSize)
	for i := 0; b.Loop(); i++ {
		x := &exchange{client: addrPort("10.244.0.5:1")}
		s.begin(x, packets[i%len(packets)])
		s.end(x, len(s.encode(x, out)), nil)
	}
}
