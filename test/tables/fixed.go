package tables

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Node returns the facts about the node that the tests use.
func Node() dataplane.Node {
	return dataplane.Node{
		PodRanges:     []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")},
		ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10:96::/112")},
		Addrs:         []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00:192:2::1")},
	}
}

// ClusterIP adds a Service port with the routes that a ClusterIP has: sources
// that are no Pod are rewritten. Without endpoints it refuses.
func ClusterIP(t *dataplane.Table, service, at string, p dataplane.Protocol, endpoints ...string) *dataplane.Table {
	addr := netip.MustParseAddrPort(at)
	fe := dataplane.Frontend{Key: dataplane.Key{Addr: addr.Addr(), Protocol: p, Port: addr.Port()}, Service: service}
	set := service + "/" + p.String() + "/" + dataplane.FamilyOf(addr.Addr()).String()
	for s := range fe.Routes {
		fe.Routes[s] = dataplane.Route{Verdict: dataplane.Forward, Set: set, Masquerade: dataplane.Source(s) != dataplane.FromPod}
		if len(endpoints) == 0 {
			fe.Routes[s] = dataplane.Route{Verdict: dataplane.Refuse}
		}
	}
	t.Frontends = append(t.Frontends, fe)
	if len(endpoints) > 0 {
		es := dataplane.EndpointSet{Name: set, Service: service, Protocol: p}
		for _, e := range endpoints {
			es.Endpoints = append(es.Endpoints, dataplane.Endpoint{Addr: netip.MustParseAddrPort(e), Weight: 1, Local: true})
		}
		t.Sets = append(t.Sets, es)
	}
	t.Sort()
	return t
}

// EveryShape is a table in which each kind of rule occurs, in both families.
func EveryShape() dataplane.Table {
	t := dataplane.Table{Node: Node()}
	for _, f := range []struct{ vip, pod, external string }{
		{"10.96.0.%d", "10.244.0.%d", "203.0.113.7"},
		{"[fd00:10:96::%x]", "[fd00:10:244::%x]", "fd00:203:113::7"},
	} {
		eps := func(n int) (out []string) {
			for i := range n {
				out = append(out, fmt.Sprintf(f.pod, i+11)+":8080")
			}
			return out
		}
		vip := func(n, port int) string { return fmt.Sprintf(f.vip, n) + fmt.Sprintf(":%d", port) }
		ClusterIP(&t, "default/web:http", vip(10, 80), dataplane.TCP, eps(3)...)
		ClusterIP(&t, "default/empty", vip(11, 80), dataplane.TCP)
		ClusterIP(&t, "kube-system/dns:dns", vip(53, 53), dataplane.UDP, eps(2)...)
		ClusterIP(&t, "kube-system/dns:dns-tcp", vip(53, 53), dataplane.TCP, eps(2)...)
		ClusterIP(&t, "default/signal", vip(12, 132), dataplane.SCTP, eps(1)...)
		ClusterIP(&t, "default/large", vip(13, 80), dataplane.TCP, eps(70)...)
		for i := range 60 {
			ClusterIP(&t, fmt.Sprintf("default/ports:p%d", i), vip(14, 8000+i*7), dataplane.TCP, eps(1)...)
			ClusterIP(&t, fmt.Sprintf("default/many%d", i), vip(100+i, 80), dataplane.TCP, eps(1)...)
		}
		ClusterIP(&t, "default/ports:low", vip(14, 1), dataplane.UDP, eps(1)...)
		ClusterIP(&t, "default/sticky", vip(15, 80), dataplane.TCP, eps(3)...)
		external(&t, f.external)
	}
	for i := range t.Sets {
		if t.Sets[i].Service == "default/sticky" {
			t.Sets[i].Affinity = 3 * time.Hour
		}
	}
	return t
}

// external adds an address outside of the Service ranges that only some sources
// may use, with three different routes, and a NodePort.
func external(t *dataplane.Table, at string) {
	addr := netip.MustParseAddr(at)
	set := t.Sets[0].Name
	for _, s := range t.Sets {
		if s.Service == "default/web:http" && dataplane.FamilyOf(s.Endpoints[0].Addr.Addr()) == dataplane.FamilyOf(addr) {
			set = s.Name
		}
	}
	routes := [dataplane.Sources]dataplane.Route{
		{Verdict: dataplane.Forward, Set: set},
		{Verdict: dataplane.Forward, Set: set, Masquerade: true},
		{Verdict: dataplane.Drop},
	}
	allowed := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.244.0.0/16")}
	any4 := netip.IPv4Unspecified()
	if addr.Is6() {
		allowed = []netip.Prefix{netip.MustParsePrefix("fd00:192:2::/64"), netip.MustParsePrefix("fd00:10:244::/56")}
		any4 = netip.IPv6Unspecified()
	}
	t.Frontends = append(t.Frontends,
		dataplane.Frontend{Key: dataplane.Key{Addr: addr, Protocol: dataplane.TCP, Port: 80}, Kind: dataplane.ExternalIP,
			Service: "default/web:http", Routes: routes, Allowed: allowed},
		dataplane.Frontend{Key: dataplane.Key{Addr: any4, Protocol: dataplane.TCP, Port: 30080}, Kind: dataplane.NodePort,
			Service: "default/web:http", Routes: routes})
	t.Sort()
}

// Small is a table whose rules are few enough to be damaged by hand.
func Small() dataplane.Table {
	t := dataplane.Table{Node: Node()}
	ClusterIP(&t, "default/web:http", "10.96.0.10:80", dataplane.TCP, "10.244.0.11:8080", "10.244.0.12:8080")
	ClusterIP(&t, "default/web:http", "[fd00:10:96::10]:80", dataplane.TCP, "[fd00:10:244::11]:8080")
	ClusterIP(&t, "default/empty", "10.96.0.11:80", dataplane.TCP)
	return t
}

// Many is a table of n Services with their endpoints, laid out as an allocator
// of addresses does: one after the other. No endpoint lives here.
func Many(n, endpoints int) dataplane.Table {
	t := dataplane.Table{Node: Node()}
	addr := netip.MustParseAddr("10.96.0.1")
	for i := range n {
		var eps []string
		for e := range endpoints {
			eps = append(eps, fmt.Sprintf("10.%d.%d.%d:8080", 200+e, i/250, 1+i%250))
		}
		Fill(&t, i, netip.AddrPortFrom(addr, 80), eps...)
		addr = addr.Next()
	}
	t.Sort()
	return t
}

// Fill is clusterIP for large tables: the caller sorts.
func Fill(t *dataplane.Table, number int, at netip.AddrPort, endpoints ...string) {
	one := dataplane.Table{}
	ClusterIP(&one, fmt.Sprintf("default/s%d:http", number), at.String(), dataplane.TCP, endpoints...)
	for i := range one.Sets {
		for e := range one.Sets[i].Endpoints {
			one.Sets[i].Endpoints[e].Local = false
		}
	}
	t.Frontends = append(t.Frontends, one.Frontends...)
	t.Sets = append(t.Sets, one.Sets...)
}
