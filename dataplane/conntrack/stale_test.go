package conntrack

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

func addr(s string) netip.Addr         { return netip.MustParseAddr(s) }
func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// testNode is the node of the lab, in both families.
func testNode() dataplane.Node {
	return dataplane.Node{
		PodRanges:     []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")},
		ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10:96::/112")},
		Addrs:         []netip.Addr{addr("192.0.2.1"), addr("fd00:192:2::1")},
	}
}

// builder makes tables for tests.
type builder struct{ dataplane.Table }

func newTable() *builder { return &builder{dataplane.Table{Node: testNode()}} }

// set adds an endpoint set and returns the route to it.
func (b *builder) set(name string, p dataplane.Protocol, endpoints ...string) dataplane.Route {
	s := dataplane.EndpointSet{Name: name, Service: "default/" + name, Protocol: p}
	for _, e := range endpoints {
		s.Endpoints = append(s.Endpoints, dataplane.Endpoint{Addr: addrPort(e), Weight: 1, Local: true})
	}
	b.Sets = append(b.Sets, s)
	b.Sort()
	return dataplane.Route{Verdict: dataplane.Forward, Set: name}
}

// frontend adds a frontend; one route stands for all three classes.
func (b *builder) frontend(kind dataplane.Kind, at string, p dataplane.Protocol, routes ...dataplane.Route) *dataplane.Frontend {
	a := addrPort(at)
	fe := dataplane.Frontend{Key: dataplane.Key{Addr: a.Addr(), Protocol: p, Port: a.Port()}, Kind: kind, Service: "default/svc"}
	for c := range fe.Routes {
		fe.Routes[c] = routes[c%len(routes)]
	}
	b.Frontends = append(b.Frontends, fe)
	b.Sort()
	for i := range b.Frontends {
		if b.Frontends[i].Key == fe.Key {
			return &b.Frontends[i]
		}
	}
	return nil
}

// flow reads "udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53": source, destination
// and who gets the packets. The word opening marks a handshake that is not
// answered, ipvs a translation by IPVS.
func flow(text string) Flow {
	w := strings.Fields(text)
	f := Flow{Protocol: map[string]dataplane.Protocol{"udp": dataplane.UDP, "tcp": dataplane.TCP, "sctp": dataplane.SCTP}[w[0]]}
	f.Original = Tuple{addrPort(w[1]), addrPort(w[2])}
	f.Reply = Tuple{addrPort(w[3]), addrPort(w[1])}
	f.Rewritten = w[2] != w[3]
	for _, word := range w[4:] {
		f.Opening = f.Opening || word == "opening"
		f.Rewritten = f.Rewritten && word != "ipvs"
	}
	return f
}

// everyDoor is a table with each kind of frontend, in IPv4, and what was there
// before it.
func everyDoor() Wanted {
	b := newTable()
	dns := b.set("dns", dataplane.UDP, "10.244.0.5:53", "10.244.0.6:53")
	near := b.set("near", dataplane.UDP, "10.244.0.6:53")
	web := b.set("web", dataplane.TCP, "10.244.0.5:8080")
	sip := b.set("sip", dataplane.SCTP, "10.244.0.5:5060")
	refuse, drop := dataplane.Route{Verdict: dataplane.Refuse}, dataplane.Route{Verdict: dataplane.Drop}
	b.frontend(dataplane.ClusterIP, "10.96.0.53:53", dataplane.UDP, dns)
	b.frontend(dataplane.NodePort, "0.0.0.0:30053", dataplane.UDP, dns, dns, near)
	b.frontend(dataplane.ExternalIP, "203.0.113.7:53", dataplane.UDP, dns, near, drop)
	b.frontend(dataplane.LoadBalancerIP, "203.0.113.8:53", dataplane.UDP, dns).Allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	b.frontend(dataplane.ClusterIP, "10.96.0.54:53", dataplane.UDP, refuse)
	b.frontend(dataplane.ClusterIP, "10.96.0.10:80", dataplane.TCP, web)
	b.frontend(dataplane.LoadBalancerIP, "203.0.113.9:80", dataplane.TCP, web)
	b.frontend(dataplane.ClusterIP, "10.96.0.11:80", dataplane.TCP, refuse)
	b.frontend(dataplane.ClusterIP, "10.96.0.12:5060", dataplane.SCTP, sip)
	return Wanted{Table: b.Table, Local: []netip.Addr{addr("192.0.2.1"), addr("172.16.0.1")}, Former: []dataplane.Key{
		{Addr: addr("203.0.113.50"), Protocol: dataplane.UDP, Port: 53},
		{Addr: addr("192.0.2.1"), Protocol: dataplane.UDP, Port: 30099},
		{Addr: addr("203.0.113.7"), Protocol: dataplane.UDP, Port: 53},
	}}
}

func TestStale(t *testing.T) {
	tests := []struct{ name, flow, reason string }{
		{"ClusterIP, endpoint in force", "udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53", ""},
		{"ClusterIP, the last endpoint of the list", "udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.6:53", ""},
		{"ClusterIP, endpoint gone", "udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.7:53", "10.244.0.7:53 is no endpoint"},
		{"ClusterIP, port changed", "udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:5353", "another port"},
		{"ClusterIP, older than the rules", "udp 10.244.0.2:4000 10.96.0.53:53 10.96.0.53:53", "passes the frontend by"},
		{"ClusterIP without endpoints", "udp 10.244.0.2:4000 10.96.0.54:53 10.244.0.5:53", "new flows are refused"},
		{"ClusterIP without endpoints, older than the rules", "udp 10.244.0.2:4000 10.96.0.54:53 10.96.0.54:53", "new flows are refused"},
		{"Service deleted", "udp 10.244.0.2:4000 10.96.9.9:53 10.244.0.5:53", "no Service has"},
		{"address in the range that leaked before", "udp 10.244.0.2:4000 10.96.9.9:53 10.96.9.9:53", "no Service has"},
		{"ClusterIP, a port of none", "udp 10.244.0.2:4000 10.96.0.53:54 10.244.0.5:54", "no Service has"},
		{"same address and port, other protocol", "udp 10.244.0.2:4000 10.96.0.10:80 10.244.0.5:8080", "no Service has"},

		{"NodePort, endpoint in force", "udp 10.244.0.2:4000 192.0.2.1:30053 10.244.0.5:53", ""},
		{"NodePort, endpoint gone", "udp 10.244.0.2:4000 192.0.2.1:30053 10.244.0.7:53", "no endpoint for flows from pod"},
		{"NodePort, endpoint not for those outside", "udp 192.0.2.10:4000 192.0.2.1:30053 10.244.0.5:53", "no endpoint for flows from outside"},
		{"NodePort, endpoint for those outside", "udp 192.0.2.10:4000 192.0.2.1:30053 10.244.0.6:53", ""},
		{"NodePort, the node itself", "udp 172.16.0.1:4000 192.0.2.1:30053 10.244.0.5:53", ""},
		{"NodePort, the node itself, loopback", "udp 127.0.0.1:4000 192.0.2.1:30053 10.244.0.5:53", ""},
		{"NodePort, older than the rules", "udp 192.0.2.10:4000 192.0.2.1:30053 192.0.2.1:30053", "passes the frontend by"},
		{"another host's port of that number", "udp 192.0.2.10:4000 10.244.1.9:30053 10.244.1.9:30053", ""},
		{"another host's port of that number, translated", "udp 192.0.2.10:4000 192.0.2.2:30053 10.244.1.9:53", ""},
		{"the node's client on that port", "udp 192.0.2.1:30053 192.0.2.10:53 192.0.2.10:53", ""},
		{"NodePort deleted", "udp 192.0.2.10:4000 192.0.2.1:30099 10.244.0.5:53", "any more"},
		{"NodePort deleted, a program of the node has the port", "udp 192.0.2.10:4000 192.0.2.1:30099 192.0.2.1:30099", ""},
		{"somebody's host port", "udp 192.0.2.10:4000 192.0.2.1:8053 10.244.0.5:53", ""},

		{"external, a Pod's", "udp 10.244.0.2:4000 203.0.113.7:53 10.244.0.5:53", ""},
		{"external, the node's, endpoint not for it", "udp 192.0.2.1:4000 203.0.113.7:53 10.244.0.5:53", "no endpoint for flows from node"},
		{"external, the node's", "udp 192.0.2.1:4000 203.0.113.7:53 10.244.0.6:53", ""},
		{"external, dropped by policy", "udp 192.0.2.10:4000 203.0.113.7:53 10.244.0.6:53", "new ones are dropped"},
		{"external, deleted", "udp 192.0.2.10:4000 203.0.113.50:53 10.244.0.6:53", "any more"},
		{"external, deleted, other port", "udp 192.0.2.10:4000 203.0.113.50:54 10.244.0.6:53", ""},
		{"external, deleted, never translated", "udp 192.0.2.10:4000 203.0.113.50:53 203.0.113.50:53", ""},
		{"load balancer, source allowed", "udp 192.0.2.10:4000 203.0.113.8:53 10.244.0.5:53", ""},
		{"load balancer, source not allowed", "udp 198.51.100.1:4000 203.0.113.8:53 10.244.0.5:53", "may not use"},

		{"to an endpoint, without a frontend", "udp 10.244.0.2:4000 10.244.0.5:53 10.244.0.5:53", ""},
		{"of IPVS that went", "udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53 ipvs", "IPVS"},

		{"TCP, answered, endpoint gone", "tcp 10.244.0.2:4000 10.96.0.10:80 10.244.0.7:8080", ""},
		{"TCP, answered, older than the rules", "tcp 10.244.0.2:4000 203.0.113.9:80 203.0.113.9:80", ""},
		{"TCP, answered, refused by now", "tcp 10.244.0.2:4000 10.96.0.11:80 10.244.0.5:8080", ""},
		{"TCP, answered, Service gone", "tcp 10.244.0.2:4000 10.96.9.9:80 10.244.0.5:8080", ""},
		{"TCP, first packet, older than the rules", "tcp 192.0.2.10:40000 203.0.113.9:80 203.0.113.9:80 opening", "passes the frontend by"},
		{"TCP, first packet, under way", "tcp 192.0.2.10:40000 203.0.113.9:80 10.244.0.5:8080 opening", ""},
		{"TCP, first packet, endpoint gone", "tcp 192.0.2.10:40000 203.0.113.9:80 10.244.0.7:8080 opening", "is no endpoint"},
		{"TCP, first packet, refused by now", "tcp 10.244.0.2:40000 10.96.0.11:80 10.96.0.11:80 opening", "refused"},
		{"TCP, first packet to others", "tcp 10.244.0.2:40000 198.51.100.1:80 198.51.100.1:80 opening", ""},
		{"SCTP, answered", "sctp 10.244.0.2:4000 10.96.0.12:5060 10.244.0.7:5060", ""},
		{"SCTP, first packet, older than the rules", "sctp 10.244.0.2:4000 10.96.0.12:5060 10.96.0.12:5060 opening", "passes the frontend by"},
	}
	w := everyDoor()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkStale(t, w, flow(tt.flow), tt.reason) })
	}
}

// checkStale requires a flow to be stale for a reason; right if that is empty.
func checkStale(t *testing.T, w Wanted, f Flow, reason string) {
	t.Helper()
	got := Stale(w, []Flow{f})
	switch {
	case reason == "" && len(got) > 0:
		t.Errorf("%s: stale, %q; it is right", f, got[0].Reason)
	case reason != "" && len(got) == 0:
		t.Errorf("%s: not stale, want %q", f, reason)
	case reason != "" && !strings.Contains(got[0].Reason, reason):
		t.Errorf("%s: reason %q, want %q", f, got[0].Reason, reason)
	}
}

// TestStaleIPVS proves what differs when IPVS translates: that the kernel's own
// translation has no part in a flow is right then.
func TestStaleIPVS(t *testing.T) {
	w := everyDoor()
	w.Virtual = true
	checkStale(t, w, flow("udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53 ipvs"), "")
	checkStale(t, w, flow("udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.7:53 ipvs"), "is no endpoint")
	checkStale(t, w, flow("udp 10.244.0.2:4000 10.96.0.53:53 10.96.0.53:53"), "passes the frontend by")
	checkStale(t, w, flow("udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53"), "")
}

// TestStaleIPv6 is field fault 29: each family has flows of its own.
func TestStaleIPv6(t *testing.T) {
	b := newTable()
	b.frontend(dataplane.ClusterIP, "[fd00:10:96::53]:53", dataplane.UDP, b.set("dns6", dataplane.UDP, "[fd00:10:244::5]:53"))
	b.frontend(dataplane.NodePort, "[::]:30053", dataplane.UDP, b.set("node6", dataplane.UDP, "[fd00:10:244::5]:53"))
	b.frontend(dataplane.ClusterIP, "10.96.0.53:53", dataplane.UDP, b.set("dns", dataplane.UDP, "10.244.0.5:53"))
	w := Wanted{Table: b.Table}
	checkStale(t, w, flow("udp [fd00:10:244::2]:4000 [fd00:10:96::53]:53 [fd00:10:244::5]:53"), "")
	checkStale(t, w, flow("udp [fd00:10:244::2]:4000 [fd00:10:96::53]:53 [fd00:10:244::c]:53"), "[fd00:10:244::c]:53 is no endpoint")
	checkStale(t, w, flow("udp [fd00:10:244::2]:4000 [fd00:10:96::54]:53 [fd00:10:244::5]:53"), "no Service has")
	checkStale(t, w, flow("udp [fd00:192:2::10]:4000 [fd00:192:2::1]:30053 [fd00:10:244::6]:53"), "is no endpoint")
	checkStale(t, w, flow("udp [fd00:192:2::10]:4000 [fd00:192:2::2]:30053 [fd00:10:244::6]:53"), "")
	checkStale(t, w, flow("udp 192.0.2.10:4000 192.0.2.1:30053 10.244.0.6:53"), "") // no NodePort of IPv4
}

// TestPodRangeOfOtherFamily proves that without a Pod range of its family every
// source counts as a Pod, as it does in the rules.
func TestPodRangeOfOtherFamily(t *testing.T) {
	b := newTable()
	b.Node.PodRanges = b.Node.PodRanges[1:]
	b.frontend(dataplane.ExternalIP, "203.0.113.7:53", dataplane.UDP, b.set("dns", dataplane.UDP, "10.244.0.5:53"),
		dataplane.Route{Verdict: dataplane.Drop}, dataplane.Route{Verdict: dataplane.Drop})
	checkStale(t, Wanted{Table: b.Table}, flow("udp 192.0.2.10:4000 203.0.113.7:53 10.244.0.5:53"), "")
}

func TestFlowText(t *testing.T) {
	f := flow("udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53")
	if got, want := f.String(), "udp 10.244.0.2:4000 → 10.96.0.53:53 (10.244.0.5:53)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p := &plan{findings: []Finding{{Flow: f, Service: "default/dns", Reason: "gone"}}}
	c := p.Changes()[0]
	if got, want := c.String(), "- conntrack udp 10.244.0.2:4000 → 10.96.0.53:53 (10.244.0.5:53) for default/dns: gone"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := c.Lines[0], "- udp src=10.244.0.2 dst=10.96.0.53 sport=4000 dport=53 src=10.244.0.5 dst=10.244.0.2 sport=53 dport=4000"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
