package walk

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// packet is what a flow begins with.
type packet struct {
	from *lab.Host
	// source is the address that it is sent from. It is not valid where the host
	// chooses one of several.
	source netip.Addr
	to     dataplane.Key
	// class is what the host is.
	class dataplane.Source
}

// String returns "p1 (10.244.0.11) → 10.96.0.10:80/tcp".
func (p packet) String() string { return fmt.Sprintf("%s (%s) → %s", p.from.Name, p.source, p.to) }

// fate is what a table says becomes of a packet.
type fate struct {
	verdict dataplane.Verdict
	// endpoints are those that a forwarded packet may reach.
	endpoints []dataplane.Endpoint
	// masquerade: an endpoint sees an address of the node. One that has sent the
	// packet itself always does.
	masquerade bool
	// sticky: the client stays with its endpoint.
	sticky bool
}

// String returns "forward to [10.244.0.11:8080]".
func (f fate) String() string {
	var to []string
	for _, e := range f.endpoints {
		to = append(to, e.Addr.String())
	}
	return fmt.Sprintf("%s to %v, masquerade %t, sticky %t", f.verdict, to, f.masquerade, f.sticky)
}

// fateOf reads the fate of a packet out of a table, as the documentation of
// dataplane.Table has it; known is false where that says nothing.
func fateOf(t dataplane.Table, p packet) (f fate, known bool) {
	fe, ok := frontendAt(t, p.to)
	switch {
	case !ok:
		return unserved(t, p.to)
	case fe.Allowed == nil:
	case !p.source.IsValid():
		return fate{}, false
	case !slices.ContainsFunc(fe.Allowed, func(r netip.Prefix) bool { return r.Contains(p.source) }):
		return fate{verdict: dataplane.Drop}, true
	}
	route := fe.Routes[p.class]
	set, _ := t.Set(route.Set)
	return fate{route.Verdict, set.Endpoints, route.Masquerade, set.Affinity > 0}, true
}

// frontendAt finds what answers at a destination.
func frontendAt(t dataplane.Table, k dataplane.Key) (dataplane.Frontend, bool) {
	fe, ok := t.Frontend(k)
	if ok || !slices.Contains(t.Node.Addrs, k.Addr) {
		return fe, ok
	}
	was := k.Addr
	k.Addr = netip.IPv4Unspecified()
	if was.Is6() {
		k.Addr = netip.IPv6Unspecified()
	}
	return t.Frontend(k)
}

// unserved is the fate of a packet to what no frontend has: refused at a ClusterIP,
// dropped elsewhere in a Service range, refused by the node at its own addresses.
func unserved(t dataplane.Table, k dataplane.Key) (fate, bool) {
	switch {
	case slices.Contains(nodeAddrs(), k.Addr):
		return fate{verdict: dataplane.Refuse}, true
	case !slices.ContainsFunc(t.Node.ServiceRanges, func(r netip.Prefix) bool { return r.Contains(k.Addr) }):
		return fate{}, false
	case slices.ContainsFunc(t.Frontends, func(fe dataplane.Frontend) bool { return fe.Addr == k.Addr && fe.Kind == dataplane.ClusterIP }):
		return fate{verdict: dataplane.Refuse}, true
	case slices.ContainsFunc(t.Frontends, func(fe dataplane.Frontend) bool { return fe.Addr == k.Addr }):
		return fate{}, false // an external address in a range that is not for such
	}
	return fate{verdict: dataplane.Drop}, true
}
