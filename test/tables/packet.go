package tables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Packet is the first packet of a flow.
type Packet struct {
	Src, Dst netip.Addr
	Protocol dataplane.Protocol
	Port     uint16
	// In is the link that it came in through, if any.
	In string
}

// String says from where to where, and by which link.
func (p Packet) String() string {
	return fmt.Sprintf("%s by link %q to %s", p.Src, p.In, p.key())
}

func (p Packet) key() dataplane.Key {
	return dataplane.Key{Addr: p.Dst, Protocol: p.Protocol, Port: p.Port}
}

// To is the packet to another frontend.
func (p Packet) To(k dataplane.Key) Packet {
	p.Dst, p.Protocol, p.Port = k.Addr, k.Protocol, k.Port
	return p
}

// On is the packet as it meets a node.
func (p Packet) On(n dataplane.Node) dataplane.Packet {
	return dataplane.Packet{Key: p.key(), Src: p.Src, In: p.In, Own: OwnAddrs(n)}
}

// OwnAddrs are the addresses of the node, be they for NodePorts or not.
func OwnAddrs(n dataplane.Node) []netip.Addr {
	return append(slices.Clone(n.Addrs), netip.MustParseAddr("10.244.0.1"))
}

// Fates are shares of a packet, which add up to 1, by what becomes of them:
// "forward 10.0.0.1:80", "forward 10.0.0.1:80 masquerade", "refuse", "drop",
// "none".
type Fates map[string]float64

// FatesOf sums up a trace.
func FatesOf(tr dataplane.Trace) Fates {
	out := Fates{}
	for _, o := range tr.Outcomes {
		switch o.Fate {
		case dataplane.Passed:
			out["none"] += o.Share
		case dataplane.Refused:
			out["refuse"] += o.Share
		case dataplane.Dropped:
			out["drop"] += o.Share
		default:
			out[forward(o.Endpoint, o.Masquerade)] += o.Share
		}
	}
	return out
}

func forward(to netip.AddrPort, masquerade bool) string {
	if masquerade {
		return "forward " + to.String() + " masquerade"
	}
	return "forward " + to.String()
}

// Serves returns the frontend of a table that a packet is for.
func Serves(t dataplane.Table, p Packet) (dataplane.Frontend, bool) {
	key := p.key()
	if fe, ok := t.Frontend(key); ok {
		return fe, true
	}
	if !slices.Contains(t.Node.Addrs, p.Dst) {
		return dataplane.Frontend{}, false
	}
	key.Addr = netip.IPv4Unspecified()
	if p.Dst.Is6() {
		key.Addr = netip.IPv6Unspecified()
	}
	return t.Frontend(key)
}

// Expect says by the table alone what has to become of a packet.
func Expect(t dataplane.Table, p Packet) Fates {
	fe, ok := Serves(t, p)
	switch {
	case ok:
		return expectFrontend(t, fe, p)
	case !Contain(t.Node.ServiceRanges, p.Dst):
		return Fates{"none": 1}
	case slices.ContainsFunc(t.Frontends, func(fe dataplane.Frontend) bool { return fe.Addr == p.Dst }):
		return Fates{"refuse": 1}
	}
	return Fates{"drop": 1}
}

func expectFrontend(t dataplane.Table, fe dataplane.Frontend, p Packet) Fates {
	if fe.Allowed != nil && !Contain(fe.Allowed, p.Src) {
		return Fates{"drop": 1}
	}
	r := fe.Routes[classOf(t.Node, p)]
	if r.Verdict != dataplane.Forward {
		return Fates{r.Verdict.String(): 1}
	}
	out := Fates{}
	set, _ := t.Set(r.Set)
	total := 0.0
	for _, e := range set.Endpoints {
		total += float64(e.Weight)
	}
	for _, e := range set.Endpoints {
		out[forward(e.Addr, r.Masquerade || e.Local && e.Addr.Addr() == p.Src)] = float64(e.Weight) / total
	}
	return out
}

// classOf says by the node alone what a source counts as.
func classOf(n dataplane.Node, p Packet) dataplane.Source {
	pod := false
	for _, link := range n.PodInterfaces {
		prefix, begins := strings.CutSuffix(link, "+")
		pod = pod || p.In == link || begins && strings.HasPrefix(p.In, prefix)
	}
	if len(n.PodInterfaces) == 0 {
		pod = Contain(n.PodRanges, p.Src)
	}
	switch {
	case pod:
		return dataplane.FromPod
	case slices.Contains(OwnAddrs(n), p.Src):
		return dataplane.FromNode
	}
	return dataplane.FromOutside
}

// Contain reports whether one of the ranges has an address.
func Contain(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}
