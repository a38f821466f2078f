package tables

import (
	"net/netip"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// Door is a frontend of both families, with the sets of ClusterIP Services that
// the classes of sources go to: Pod, node, outside. A set is the one letter of
// the Service's name, with "+" at its end where the source is rewritten; "refuse"
// and "drop" are verdicts.
type Door struct {
	Kind dataplane.Kind
	// At is the IPv4 address and port; a NodePort has but the port of it.
	At     string
	Routes [dataplane.Sources]string
	// Allowed are ranges of both families.
	Allowed []string
}

// Open adds doors to a table, in both families.
func Open(t testing.TB, table *dataplane.Table, doors ...Door) {
	t.Helper()
	for _, d := range doors {
		at := Both(t, d.At)
		if d.Kind == dataplane.NodePort {
			at[0] = netip.AddrPortFrom(netip.IPv4Unspecified(), at[0].Port())
			at[1] = netip.AddrPortFrom(netip.IPv6Unspecified(), at[1].Port())
		}
		for _, a := range at {
			fe := dataplane.Frontend{Key: dataplane.Key{Addr: a.Addr(), Protocol: dataplane.TCP, Port: a.Port()}, Kind: d.Kind, Service: "default/a"}
			for s, text := range d.Routes {
				fe.Routes[s] = routeOf(text, dataplane.FamilyOf(a.Addr()))
			}
			for _, text := range d.Allowed {
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

// Alike is the same route for every source.
func Alike(text string) [dataplane.Sources]string {
	return [dataplane.Sources]string{text, text, text}
}

// Doors fills a table with every kind of door. Service a has p2, b has p3.
func Doors(t testing.TB) func(*lab.Lab, *dataplane.Table) {
	return func(l *lab.Lab, table *dataplane.Table) {
		Service(t, table, "default/a", "10.96.0.10:80", dataplane.TCP, l.Pod(2))
		Service(t, table, "default/b", "10.96.0.11:80", dataplane.TCP, l.Pod(3))
		local := [dataplane.Sources]string{"b", "b+", "a"} // externalTrafficPolicy Local
		nowhere := [dataplane.Sources]string{"b", "b+", "drop"}
		Open(t, table,
			Door{Kind: dataplane.NodePort, At: "192.0.2.1:30080", Routes: Alike("a+")},
			Door{Kind: dataplane.NodePort, At: "192.0.2.1:30081", Routes: local},
			Door{Kind: dataplane.NodePort, At: "192.0.2.1:30082", Routes: nowhere},
			Door{Kind: dataplane.NodePort, At: "192.0.2.1:30083", Routes: Alike("refuse")},
			Door{Kind: dataplane.ExternalIP, At: "203.0.113.7:80", Routes: Alike("a+")},
			Door{Kind: dataplane.ExternalIP, At: "203.0.113.7:81", Routes: [dataplane.Sources]string{"a", "b+", "drop"}},
			Door{Kind: dataplane.ExternalIP, At: "192.0.2.1:8443", Routes: Alike("b+")}, // the node's own address
			Door{Kind: dataplane.ExternalIP, At: "192.0.2.1:30090", Routes: Alike("b+")},
			Door{Kind: dataplane.NodePort, At: "192.0.2.1:30090", Routes: Alike("a+")},
			Door{Kind: dataplane.LoadBalancerIP, At: "203.0.113.8:80", Routes: Alike("a+"),
				Allowed: []string{"192.0.2.10/32", "192.0.2.0/28", "10.244.0.12/32", "fd00:192:2::10/128", "fd00:10:244::12/128"}},
			Door{Kind: dataplane.LoadBalancerIP, At: "203.0.113.8:81", Routes: Alike("refuse"), Allowed: []string{"10.244.0.0/16", "fd00:10:244::/56"}},
			Door{Kind: dataplane.LoadBalancerIP, At: "203.0.113.8:82", Routes: [dataplane.Sources]string{"a+", "refuse", "b"}},
			Door{Kind: dataplane.LoadBalancerIP, At: "203.0.113.9:80", Routes: local})
	}
}

// CheckDoors requires what each class of sources meets at each door, and that
// NodePorts answer on the node's addresses alone: on no other local one, on no
// other host behind the node.
func CheckDoors(t *testing.T, program Program) {
	const a, b, none = "p2 snat", "p3 snat", "REFUSED"
	l := Programmed(t, program, Doors(t))
	l.Outside.Serve(dataplane.TCP, 30080)
	for _, text := range []string{"203.0.113.9:0", "203.0.113.20:0"} { // local, but not for NodePorts
		for _, own := range Both(t, text) {
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
		{"203.0.113.7:81", "p2 own", b, "TIMEOUT"},
		{"203.0.113.8:80", "TIMEOUT", "", a},
		{"203.0.113.8:81", none, "TIMEOUT", "TIMEOUT"},
		{"203.0.113.8:82", a, none, "p3 own"},
		{"203.0.113.9:80", "p3 own", b, "p2 own"},
	} {
		for _, at := range Both(t, tc.at) {
			CheckOutcome(t, l.Pod(1), at, tc.pod)
			CheckOutcome(t, l.Node, at, tc.node)
			CheckOutcome(t, l.Outside, at, tc.outside)
		}
	}
	for _, at := range Both(t, "203.0.113.8:80") {
		CheckOutcome(t, l.Pod(2), at, a) // allowed, and hairpin
	}
}

// CheckOutcome dials once by TCP and requires an outcome: who answered, with the
// client's own source or another ("p2 own", "p2 snat"), or else the fate. An
// empty one is not asked for.
func CheckOutcome(t testing.TB, from *lab.Host, at netip.AddrPort, want string) {
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

// CheckOtherPorts requires that a port which no frontend has is refused in the
// Service range only: elsewhere the packet goes where it would.
func CheckOtherPorts(t *testing.T, program Program) {
	l := Programmed(t, program, Doors(t))
	watch := l.Node.Capture(lab.Uplink)
	for _, at := range Both(t, "203.0.113.7:99") {
		lab.Probe(l.Pod(1), dataplane.TCP, at, lab.Options{Timeout: 100 * time.Millisecond})
		if watch.Sent(at.Addr()) == 0 {
			t.Errorf("no packet to %s left by the uplink", at)
		}
	}
}
