package iptables

import (
	"net/netip"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
)

// door is a frontend of both families, with the sets of ClusterIP Services that
// the classes of sources go to: pod, node, outside. A set with "+" at its end has
// the source rewritten; "refuse" and "drop" are verdicts.
type door struct {
	kind    dataplane.Kind
	at      string // empty address: NodePort
	routes  [dataplane.Sources]string
	allowed []string
}

// open adds doors to a table, in both families.
func open(t *testing.T, table *dataplane.Table, doors ...door) {
	t.Helper()
	for _, d := range doors {
		at := both(t, d.at)
		if d.kind == dataplane.NodePort {
			at[0] = netip.AddrPortFrom(netip.IPv4Unspecified(), at[0].Port())
			at[1] = netip.AddrPortFrom(netip.IPv6Unspecified(), at[1].Port())
		}
		for _, a := range at {
			fe := dataplane.Frontend{Key: dataplane.Key{Addr: a.Addr(), Protocol: dataplane.TCP, Port: a.Port()}, Kind: d.kind, Service: "default/a"}
			for s, text := range d.routes {
				fe.Routes[s] = routeOf(text, dataplane.FamilyOf(a.Addr()))
			}
			for _, text := range d.allowed {
				if p := netip.MustParsePrefix(text); p.Addr().Is4() == a.Addr().Is4() {
					fe.Allowed = append(fe.Allowed, p)
				}
			}
			table.Frontends = append(table.Frontends, fe)
		}
	}
	table.Sort()
}

func routeOf(text string, f dataplane.Family) dataplane.Route {
	switch text {
	case "refuse":
		return dataplane.Route{Verdict: dataplane.Refuse}
	case "drop":
		return dataplane.Route{Verdict: dataplane.Drop}
	}
	name := text[:1]
	return dataplane.Route{Verdict: dataplane.Forward, Set: "default/" + name + "/tcp/" + f.String(), Masquerade: text != name}
}

// all is the same route for every source.
func all(text string) [dataplane.Sources]string {
	return [dataplane.Sources]string{text, text, text}
}

// doors is a table with every kind of door. Service a has p2, b has p3.
func doors(t *testing.T) func(l *lab.Lab, table *dataplane.Table) {
	return func(l *lab.Lab, table *dataplane.Table) {
		service(t, table, "default/a", "10.96.0.10:80", dataplane.TCP, l.Pod(2))
		service(t, table, "default/b", "10.96.0.11:80", dataplane.TCP, l.Pod(3))
		local := [dataplane.Sources]string{"b", "b+", "a"} // externalTrafficPolicy Local
		nowhere := [dataplane.Sources]string{"b", "b+", "drop"}
		open(t, table,
			door{kind: dataplane.NodePort, at: "192.0.2.1:30080", routes: all("a+")},
			door{kind: dataplane.NodePort, at: "192.0.2.1:30081", routes: local},
			door{kind: dataplane.NodePort, at: "192.0.2.1:30082", routes: nowhere},
			door{kind: dataplane.NodePort, at: "192.0.2.1:30083", routes: all("refuse")},
			door{kind: dataplane.ExternalIP, at: "203.0.113.7:80", routes: all("a+")},
			door{kind: dataplane.ExternalIP, at: "192.0.2.1:8443", routes: all("b+")}, // the node's own address
			door{kind: dataplane.ExternalIP, at: "192.0.2.1:30090", routes: all("b+")},
			door{kind: dataplane.NodePort, at: "192.0.2.1:30090", routes: all("a+")},
			door{kind: dataplane.LoadBalancerIP, at: "203.0.113.8:80", routes: all("a+"),
				allowed: []string{"192.0.2.10/32", "192.0.2.0/28", "10.244.0.12/32", "fd00:192:2::10/128", "fd00:10:244::12/128"}},
			door{kind: dataplane.LoadBalancerIP, at: "203.0.113.8:81", routes: all("refuse"), allowed: []string{"10.244.0.0/16", "fd00:10:244::/56"}},
			door{kind: dataplane.LoadBalancerIP, at: "203.0.113.9:80", routes: local})
	}
}

// TestDoors proves what each class of sources meets at each door, and that
// NodePorts answer on the node's addresses alone: on no other local one, on no
// other host behind the node.
func TestDoors(t *testing.T) {
	const a, b, none = "p2 snat", "p3 snat", "REFUSED"
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, doors(t))
		l.Outside.Serve(dataplane.TCP, 30080)
		for _, text := range []string{"203.0.113.9:0", "203.0.113.20:0"} { // local, but not for NodePorts
			for _, own := range both(t, text) {
				l.Node.AddAddr(lab.Uplink, netip.PrefixFrom(own.Addr(), own.Addr().BitLen()))
			}
		}
		for _, tc := range []struct{ at, pod, node, outside string }{
			{"192.0.2.1:30080", a, a, a},
			{"192.0.2.1:30081", "p3 own", b, "p2 own"},
			{"192.0.2.1:30082", "p3 own", b, "TIMEOUT"},
			{"192.0.2.1:30083", none, none, none},
			{"192.0.2.1:30084", none, none, none},
			{"192.0.2.1:8443", b, b, b},
			{"192.0.2.1:30090", b, b, b}, // the very address goes before
			{"10.244.0.1:30080", none, none, none},
			{"203.0.113.20:30080", none, none, none},
			{"203.0.113.9:30080", none, none, none}, // nor a load balancer's that is local
			{"192.0.2.10:30080", "X own", "X own", "X own"},
			{"203.0.113.7:80", a, a, a},
			{"203.0.113.8:80", "TIMEOUT", "", a},
			{"203.0.113.8:81", none, "TIMEOUT", "TIMEOUT"},
			{"203.0.113.9:80", "p3 own", b, "p2 own"},
		} {
			for _, at := range both(t, tc.at) {
				checkOutcome(t, l.Pod(1), at, tc.pod)
				checkOutcome(t, l.Node, at, tc.node)
				checkOutcome(t, l.Outside, at, tc.outside)
			}
		}
		for _, at := range both(t, "203.0.113.8:80") {
			checkOutcome(t, l.Pod(2), at, a) // allowed, and hairpin
		}
	})
}

// checkOutcome dials once. The outcome is who answered, with the client's own
// source or another, or else the fate; an empty one is not asked for.
func checkOutcome(t *testing.T, from *lab.Host, at netip.AddrPort, want string) {
	t.Helper()
	if want == "" {
		return
	}
	out := lab.Probe(from, dataplane.TCP, at, lab.Options{Timeout: 250 * time.Millisecond})
	got := out.Fate.String()
	if out.Fate == lab.OK {
		got = out.Endpoint + map[bool]string{true: " snat", false: " own"}[out.Masqueraded()]
	}
	if got != want {
		t.Errorf("from %s to %s: %s (%s), want %s", from.Name, at, got, out, want)
	}
}

// TestOtherPortsLeave proves that a port which no frontend has is ours to refuse
// in the Service range only: elsewhere the packet goes where it would.
func TestOtherPortsLeave(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, doors(t))
		watch := l.Node.Capture(lab.Uplink)
		for _, at := range both(t, "203.0.113.7:99") {
			lab.Probe(l.Pod(1), dataplane.TCP, at, lab.Options{Timeout: 100 * time.Millisecond})
			if watch.Sent(at.Addr()) == 0 {
				t.Errorf("no packet to %s left by the uplink", at)
			}
		}
	})
}

// TestForwardDoors proves that every door serves on a host whose FORWARD policy
// is DROP, whether the source is rewritten or kept, in both directions; and that
// the translated connections of others stay subject to the policy.
func TestForwardDoors(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, doors(t))
		foreign := both(t, "203.0.113.30:80")
		for i, tool := range []string{"iptables-", "ip6tables-"} {
			tool += e.String()
			l.Node.Run(tool, "-P", "FORWARD", "DROP")
			to := netip.AddrPortFrom(l.Pod(2).Addr([]dataplane.Family{dataplane.IPv4, dataplane.IPv6}[i]), 8080)
			l.Node.Run(tool, "-t", "nat", "-A", "PREROUTING", "-d", foreign[i].Addr().String(), "-p", "tcp", "-j", "DNAT", "--to-destination", to.String())
		}
		// Pods of the lab are neighbours, and look for each other through FORWARD.
		l.Node.Run("ip6tables-"+e.String(), "-A", "FORWARD", "-p", "icmpv6", "-j", "ACCEPT")
		for _, tc := range []struct{ at, pod, outside string }{
			{"10.96.0.10:80", "p2 own", "p2 snat"},
			{"192.0.2.1:30080", "p2 snat", "p2 snat"},
			{"192.0.2.1:30081", "p3 own", "p2 own"},
			{"203.0.113.7:80", "p2 snat", "p2 snat"},
			{"203.0.113.8:80", "TIMEOUT", "p2 snat"},
			{"203.0.113.9:80", "p3 own", "p2 own"},
			{"203.0.113.30:80", "", "TIMEOUT"},
		} {
			for _, at := range both(t, tc.at) {
				checkOutcome(t, l.Pod(1), at, tc.pod)
				checkOutcome(t, l.Outside, at, tc.outside)
			}
		}
	})
}

// TestPodsByLink proves that the link a packet came in through says who is a Pod
// when the table has links, whatever the ranges; that another bit may carry the
// marks; and that Pods of the node reach each other past a FORWARD policy of DROP.
func TestPodsByLink(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		for _, link := range []string{lab.Bridge, "b+"} {
			l := programmed(t, e, func(l *lab.Lab, table *dataplane.Table) {
				doors(t)(l, table)
				table.Node.PodInterfaces = []string{link}
				table.Node.PodRanges = lab.ServiceRanges() // of no one
				table.Node.MasqueradeMark = 1 << 31
			})
			for _, tool := range []string{"iptables-", "ip6tables-"} {
				l.Node.Run(tool+e.String(), "-P", "FORWARD", "DROP")
			}
			for _, tc := range []struct{ at, pod, node, outside string }{
				{"10.96.0.10:80", "p2 own", "p2 snat", "p2 snat"},
				{"10.96.0.10:81", "REFUSED", "REFUSED", "REFUSED"},
				{"192.0.2.1:30081", "p3 own", "p3 snat", "p2 own"},
				{"192.0.2.1:30082", "p3 own", "p3 snat", "TIMEOUT"},
				{"10.244.0.12:8080", "p2 own", "p2 own", "TIMEOUT"},
			} {
				for _, at := range both(t, tc.at) {
					checkOutcome(t, l.Pod(1), at, tc.pod)
					checkOutcome(t, l.Node, at, tc.node)
					checkOutcome(t, l.Outside, at, tc.outside)
				}
			}
		}
	})
}

// TestLoopback proves that a NodePort answers on a loopback address when the node
// wishes so, and the kernel is told to route such: the backend does not tell it.
// Over IPv6 the kernel cannot be told.
func TestLoopback(t *testing.T) {
	at, at6 := netip.MustParseAddrPort("127.0.0.1:30080"), netip.MustParseAddrPort("[::1]:30080")
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, func(l *lab.Lab, table *dataplane.Table) {
			doors(t)(l, table)
			table.Node.Addrs = append([]netip.Addr{at.Addr(), at6.Addr()}, table.Node.Addrs...)
		})
		checkOutcome(t, l.Node, at, "TIMEOUT")
		l.Node.Sysctl("net.ipv4.conf.all.route_localnet", "1")
		checkOutcome(t, l.Node, at, "p2 snat")
		checkOutcome(t, l.Node, at6, "TIMEOUT")
	})
}
