package server

import (
	"testing"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dns"
)

// FuzzServe: any packet gets a reply that can be read, to the number it had, or none;
// none ends the server. A reply by UDP is no longer than the client can take.
func FuzzServe(f *testing.F) {
	for _, name := range []string{"web.default.svc.cluster.local", "many.default.svc.cluster.local", "_http._tcp.many.default.svc.cluster.local",
		"10.0.96.10.in-addr.arpa", "example.org", "version.bind", "."} {
		for _, kind := range []uint16{mdns.TypeA, mdns.TypeSRV, mdns.TypePTR, mdns.TypeANY, mdns.TypeAXFR, mdns.TypeSOA} {
			m := query(name, kind)
			m.SetEdns0(900, true)
			packet, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packet, kind == mdns.TypeSRV)
		}
	}
	svc, slice := headless("many", 60)
	zone := dns.New(dns.Options{Domain: "cluster.local", TTL: 5})
	web := service("web", "10.96.0.10")
	events := []cluster.Event{{Object: cluster.MakeRef(cluster.Service, "default", "web"), New: web},
		{Object: cluster.MakeRef(cluster.Service, "default", "many"), New: svc},
		{Object: cluster.MakeRef(cluster.EndpointSlice, "default", slice.Name), New: slice}}
	cfg := Config{Domain: "cluster.local", Zone: zone, Source: &listed{events: events}, AllowAll: true, UDPBytes: 1232,
		Metrics: NewMetrics(":53", "cluster.local"), Tell: func(m string) { f.Error(m) }}
	s := &Server{config: cfg, access: newAccess(cfg), journal: newQueryLog(LogAll, nil)}
	s.live = &live{config: cfg, access: s.access}
	f.Fuzz(func(t *testing.T, packet []byte, overTCP bool) {
		x := &exchange{client: addrPort("10.244.0.5:1"), overTCP: overTCP}
		switch s.begin(x, packet) {
		case dropped:
			return
		case elsewhere:
			s.finish(t.Context(), x)
		}
		reply := s.encode(x, make([]byte, 512))
		var m mdns.Msg
		if err := m.Unpack(reply); err != nil {
			t.Fatalf("reply % x: %v", reply, err)
		}
		if !m.Response || m.Id != uint16(packet[0])<<8|uint16(packet[1]) {
			t.Errorf("reply %v", &m)
		}
		if !overTCP && len(reply) > max(512, min(x.size, 1232)) {
			t.Errorf("%d bytes for a client that takes %d", len(reply), x.size)
		}
		s.end(x, len(reply), nil)
	})
}
