package nftables

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// doors is a table with a NodePort, an external address that only some sources
// may use, and one whose sources have three different fates: Pods reach p2, the
// node p3, and who is outside is dropped.
func doors(t *testing.T) func(l *lab.Lab, table *dataplane.Table) {
	return func(l *lab.Lab, table *dataplane.Table) {
		service(t, table, "default/a", "10.96.0.10:80", dataplane.TCP, l.Pod(2))
		service(t, table, "default/b", "10.96.0.11:80", dataplane.TCP, l.Pod(3))
		for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
			all, external := netip.IPv4Unspecified(), netip.MustParseAddr("203.0.113.7")
			only := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("10.244.0.11/32"), netip.MustParsePrefix("10.0.0.0/9")}
			if f == dataplane.IPv6 {
				all, external = netip.IPv6Unspecified(), netip.MustParseAddr("fd00:203:113::7")
				only = []netip.Prefix{netip.MustParsePrefix("fd00:10:244::/64")}
			}
			name := func(s string) string { return "default/" + s + "/tcp/" + f.String() }
			to := func(set string, masquerade bool) dataplane.Route {
				return dataplane.Route{Verdict: dataplane.Forward, Set: name(set), Masquerade: masquerade}
			}
			same := func(r dataplane.Route) [dataplane.Sources]dataplane.Route {
				return [dataplane.Sources]dataplane.Route{r, r, r}
			}
			add := func(a netip.Addr, port uint16, k dataplane.Kind, routes [dataplane.Sources]dataplane.Route, allowed []netip.Prefix) {
				table.Frontends = append(table.Frontends, dataplane.Frontend{Key: dataplane.Key{Addr: a, Protocol: dataplane.TCP, Port: port},
					Kind: k, Service: "default/a", Routes: routes, Allowed: allowed})
			}
			add(all, 30080, dataplane.NodePort, same(to("a", true)), nil)
			add(external, 80, dataplane.ExternalIP, same(to("a", true)), only)
			add(external, 81, dataplane.ExternalIP, [dataplane.Sources]dataplane.Route{to("a", false), to("b", true), {Verdict: dataplane.Drop}}, nil)
			add(external, 82, dataplane.LoadBalancerIP, [dataplane.Sources]dataplane.Route{to("a", true), {Verdict: dataplane.Refuse}, to("b", false)}, nil)
		}
		table.Sort()
	}
}

// TestDoors proves that each source class meets its own fate at each door, and
// that NodePorts answer on the node's addresses alone.
func TestDoors(t *testing.T) {
	l := programmed(t, doors(t))
	const p2, p3, p3own = "p2 snat", "p3 snat", "p3 own"
	for _, tc := range []struct {
		at                 string
		pod, node, outside string
	}{
		{"192.0.2.1:30080", p2, p2, p2},
		{"10.244.0.1:30080", "REFUSED", "REFUSED", "REFUSED"}, // the bridge's address is none of NodePorts'
		{"192.0.2.1:30081", "REFUSED", "REFUSED", "REFUSED"},
		{"203.0.113.7:80", p2, "TIMEOUT", "TIMEOUT"},
		{"203.0.113.7:81", "p2 own", p3, "TIMEOUT"},
		{"203.0.113.7:82", p2, "REFUSED", p3own},
	} {
		for _, at := range both(t, tc.at) {
			for _, from := range []struct {
				host *lab.Host
				want string
			}{{l.Pod(1), tc.pod}, {l.Node, tc.node}, {l.Outside, tc.outside}} {
				out := lab.Probe(from.host, dataplane.TCP, at, lab.Options{Timeout: 300 * time.Millisecond})
				got := out.Fate.String()
				if out.Fate == lab.OK {
					got = out.Endpoint + map[bool]string{true: " snat", false: " own"}[out.Masqueraded()]
				}
				if got != from.want {
					t.Errorf("from %s to %s: %s (%s), want %s", from.host.Name, at, got, out, from.want)
				}
			}
		}
	}
}

// TestUnknownPortElsewhere proves that a port that no frontend has is ours to
// refuse only in the Service range: elsewhere the packet goes where it would.
func TestUnknownPortElsewhere(t *testing.T) {
	l := programmed(t, doors(t))
	watch := l.Node.Capture(lab.Uplink)
	at := netip.MustParseAddrPort("203.0.113.7:99")
	lab.Probe(l.Pod(1), dataplane.TCP, at, lab.Options{Timeout: 100 * time.Millisecond})
	if watch.Sent(at.Addr()) == 0 {
		t.Errorf("a packet to %s did not leave by the uplink", at)
	}
}

// TestAffinityLetsGo proves that a client leaves an endpoint that left the set,
// and that its memory is shared by two frontends of one Service.
func TestAffinityLetsGo(t *testing.T) {
	l := newLab(t)
	for _, p := range l.Pods {
		p.Serve(dataplane.TCP, 8080)
	}
	b := New(Config{})
	program := func(pods ...*lab.Host) {
		table := dataplane.Table{Node: testNode()}
		service(t, &table, "default/web", "10.96.0.10:80", dataplane.TCP, pods...)
		for i := range table.Sets {
			table.Sets[i].Affinity = time.Hour
		}
		for _, fe := range slices.Clone(table.Frontends) {
			fe.Port = 8080
			table.Frontends = append(table.Frontends, fe)
		}
		table.Sort()
		l.Node.Do(func() { converge(t, b, table) })
	}
	program(l.Pod(2), l.Pod(3))
	at := netip.MustParseAddrPort("10.96.0.10:80")
	first := lab.Probe(l.Pod(1), dataplane.TCP, at, lab.Options{})
	other := lab.ProbeMany(l.Pod(1), dataplane.TCP, netip.AddrPortFrom(at.Addr(), 8080), 20)
	if len(other.Endpoints) != 1 || other.Endpoints[first.Name()] != 20 {
		t.Errorf("first %s, then by the other port %v", first, other.Endpoints)
	}
	stays, goes := l.Pod(2), l.Pod(3)
	if first.Endpoint == "p2" {
		stays, goes = goes, stays
	}
	program(stays, l.Pod(1))
	if out := lab.ProbeMany(l.Pod(1), dataplane.TCP, at, 20); out.Fates[lab.OK] != 20 || out.Endpoints[goes.Name+":8080"] > 0 || len(out.Endpoints) != 1 {
		t.Errorf("after %s left: %v", goes.Name, out.Endpoints)
	}
}

// TestWeights proves that shares follow weights, for few endpoints and for so
// many that they go through the map.
func TestWeights(t *testing.T) {
	for _, weights := range [][]uint16{{1, 3, 0}, {10, 20, 70}} {
		l := programmed(t, func(l *lab.Lab, table *dataplane.Table) {
			service(t, table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pods...)
			for i := range table.Sets {
				for e := range table.Sets[i].Endpoints {
					table.Sets[i].Endpoints[e].Weight = max(1, weights[e])
				}
			}
		})
		const n = 2000
		got := lab.ProbeMany(l.Node, dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), n)
		var total float64
		for _, w := range weights {
			total += float64(max(1, w))
		}
		for i, p := range l.Pods {
			share := float64(max(1, weights[i])) / total
			if have := float64(got.Endpoints[p.Name+":8080"]) / n; have < share-0.05 || have > share+0.05 {
				t.Errorf("weights %v: %s got %.3f, want %.3f", weights, p.Name, have, share)
			}
		}
	}
}
