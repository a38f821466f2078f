package tables

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Bounds limits the tables that Any generates.
type Bounds struct {
	// Endpoints is the most endpoints of a set.
	Endpoints int
	// Affinity: some sets have it.
	Affinity bool
}

// Any generates tables of IPv4 whose addresses and ports lie near each other, so
// that trees of every shape come about.
func Any(t *rapid.T, b Bounds) dataplane.Table {
	table := dataplane.Table{Node: AnyNode(t)}
	for i := range rapid.IntRange(2, 5).Draw(t, "sets") {
		table.Sets = append(table.Sets, anySet(t, b, i))
	}
	seen := map[dataplane.Key]bool{}
	for range rapid.IntRange(1, 120).Draw(t, "frontends") {
		fe := dataplane.Frontend{Key: anyKey(t), Service: "default/x"}
		if fe.Port >= 30000 && rapid.Bool().Draw(t, "nodeport") {
			fe.Kind, fe.Addr = dataplane.NodePort, netip.IPv4Unspecified()
		}
		if seen[fe.Key] {
			continue
		}
		seen[fe.Key] = true
		for s := range fe.Routes {
			fe.Routes[s] = anyRoute(t, table.Sets, fe.Protocol)
		}
		alike(table.Node, &fe.Routes)
		fe.Allowed = rapid.SampledFrom([][]netip.Prefix{nil, nil, nil, nil, nil, {},
			{netip.MustParsePrefix("10.244.0.0/30"), netip.MustParsePrefix("192.0.2.0/24")},
			{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("198.51.100.0/31")},
			{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("192.0.2.1/32")},
		}).Draw(t, "allowed")
		table.Frontends = append(table.Frontends, fe)
	}
	table.Sort()
	return table
}

// alike makes Pods' routes those of what is outside, as they have to be where
// nothing tells the two apart.
func alike(n dataplane.Node, routes *[dataplane.Sources]dataplane.Route) {
	if len(n.PodRanges) == 0 && len(n.PodInterfaces) == 0 {
		routes[dataplane.FromPod] = routes[dataplane.FromOutside]
	}
}

// AnyNode generates all ways to tell Pods, marks, and node addresses of IPv4:
// one of them has frontends of its own as well, one lies in the Service range.
func AnyNode(t *rapid.T) dataplane.Node {
	n := dataplane.Table{Node: Node()}.ForFamily(dataplane.IPv4).Node
	n.PodRanges = rapid.SampledFrom([][]netip.Prefix{nil, n.PodRanges, {netip.MustParsePrefix("0.0.0.0/0")},
		{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("10.244.7.0/24")}}).Draw(t, "pods")
	n.PodInterfaces = rapid.SampledFrom([][]string{nil, nil, {"br0"}, {"cali+"}, {"br0", "cali+"}}).Draw(t, "links")
	n.Addrs = rapid.SampledFrom([][]netip.Addr{n.Addrs, nil, {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.200")},
		{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.7")}}).Draw(t, "addresses")
	n.MasqueradeMark = rapid.SampledFrom([]uint32{0, 1, 1 << 15, 1 << 31}).Draw(t, "mark")
	return n
}

// anyRoute draws a fate; sets serve frontends of their protocol only.
func anyRoute(t *rapid.T, sets []dataplane.EndpointSet, p dataplane.Protocol) dataplane.Route {
	r := dataplane.Route{Verdict: rapid.SampledFrom([]dataplane.Verdict{dataplane.Forward, dataplane.Forward, dataplane.Refuse, dataplane.Drop}).Draw(t, "verdict")}
	if r.Verdict == dataplane.Forward {
		able := slices.DeleteFunc(slices.Clone(sets), func(s dataplane.EndpointSet) bool { return s.Protocol != p })
		r.Set = rapid.SampledFrom(able).Draw(t, "set").Name
		r.Masquerade = rapid.Bool().Draw(t, "masquerade")
	}
	return r
}

func anySet(t *rapid.T, b Bounds, number int) dataplane.EndpointSet {
	s := dataplane.EndpointSet{Name: fmt.Sprint("set", number), Service: "default/x", Protocol: []dataplane.Protocol{dataplane.TCP, dataplane.UDP}[number%2]}
	if b.Affinity {
		s.Affinity = rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(t, "affinity")
	}
	for i := range rapid.IntRange(1, b.Endpoints).Draw(t, "endpoints") {
		s.Endpoints = append(s.Endpoints, dataplane.Endpoint{
			Addr:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(number), byte(i)}), 8080),
			Weight: rapid.SampledFrom([]uint16{1, 1, 1, 3, 10}).Draw(t, "weight"),
			Local:  true,
		})
	}
	return s
}

func anyKey(t *rapid.T) dataplane.Key {
	digit := rapid.SampledFrom([]byte{0, 1, 15, 16, 17, 32, 128, 255})
	addr := rapid.SampledFrom([]netip.Addr{
		netip.AddrFrom4([4]byte{10, 96, digit.Draw(t, "c"), digit.Draw(t, "d")}),
		netip.AddrFrom4([4]byte{10, 96, 0, byte(rapid.IntRange(0, 255).Draw(t, "e"))}),
		netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("203.0.113.8"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.96.0.10"),
	}).Draw(t, "address")
	port := rapid.OneOf(rapid.Uint16Range(1, 20), rapid.Uint16Range(8000, 8400), rapid.Uint16Range(30000, 30100)).Draw(t, "port")
	p := rapid.SampledFrom([]dataplane.Protocol{dataplane.TCP, dataplane.TCP, dataplane.UDP}).Draw(t, "protocol")
	return dataplane.Key{Addr: addr, Protocol: p, Port: port}
}

// AnyPackets generates packets to every frontend of a table of IPv4, to its
// neighbours, and to NodePorts where they answer and where not, and calls visit
// for each.
func AnyPackets(t *rapid.T, table dataplane.Table, visit func(Packet)) {
	sources := rapid.SampledFrom([]netip.Addr{netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("10.244.7.9"),
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("198.51.100.1")})
	elsewhere := []netip.Addr{netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("203.0.113.8"), netip.MustParseAddr("127.0.0.1")}
	for _, fe := range table.Frontends {
		p := Packet{Src: sources.Draw(t, "source"), In: rapid.SampledFrom([]string{"", "br0", "cali1", "eth0"}).Draw(t, "link")}
		at := []netip.Addr{fe.Addr}
		if fe.Addr.IsUnspecified() {
			at = slices.Concat(table.Node.Addrs, elsewhere)
		}
		for _, fe.Addr = range at {
			for _, k := range neighbours(fe.Key) {
				visit(p.To(k))
			}
		}
	}
}

// neighbours are a key and those next to it.
func neighbours(k dataplane.Key) []dataplane.Key {
	other := dataplane.TCP
	if k.Protocol == dataplane.TCP {
		other = dataplane.UDP
	}
	return []dataplane.Key{
		k, {Addr: k.Addr, Protocol: k.Protocol, Port: k.Port + 1}, {Addr: k.Addr, Protocol: other, Port: k.Port},
		{Addr: k.Addr.Next(), Protocol: k.Protocol, Port: k.Port}, {Addr: k.Addr.Prev(), Protocol: k.Protocol, Port: k.Port},
	}
}
