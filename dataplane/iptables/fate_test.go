package iptables

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
)

// expect says by the table alone what has to become of a packet.
func expect(t dataplane.Table, p packet) map[string]float64 {
	key := dataplane.Key{Addr: p.dst, Protocol: p.p, Port: p.port}
	if fe, ok := t.Frontend(key); ok {
		return expectFrontend(t, fe, p)
	}
	known := false
	for _, fe := range t.Frontends {
		known = known || fe.Addr == p.dst
	}
	for _, a := range t.Node.Addrs {
		if a == p.dst {
			key.Addr = netip.IPv4Unspecified()
			if fe, ok := t.Frontend(key); ok {
				return expectFrontend(t, fe, p)
			}
		}
	}
	switch {
	case !contains(t.Node.ServiceRanges, p.dst):
		return map[string]float64{"none": 1}
	case known:
		return map[string]float64{"refuse": 1}
	}
	return map[string]float64{"drop": 1}
}

// classOf says by the node alone what a source counts as.
func classOf(n dataplane.Node, p packet) dataplane.Source {
	pod := false
	for _, link := range n.PodInterfaces {
		prefix, begins := strings.CutSuffix(link, "+")
		pod = pod || p.in == link || begins && strings.HasPrefix(p.in, prefix)
	}
	if len(n.PodInterfaces) == 0 {
		pod = pod || contains(n.PodRanges, p.src)
	}
	switch {
	case pod:
		return dataplane.FromPod
	case slices.Contains(ownAddrs(n), p.src):
		return dataplane.FromNode
	}
	return dataplane.FromOutside
}

func expectFrontend(t dataplane.Table, fe dataplane.Frontend, p packet) map[string]float64 {
	if fe.Allowed != nil && !contains(fe.Allowed, p.src) {
		return map[string]float64{"drop": 1}
	}
	r := fe.Routes[classOf(t.Node, p)]
	if r.Verdict != dataplane.Forward {
		return map[string]float64{r.Verdict.String(): 1}
	}
	suffix := ""
	if fe.Kind == dataplane.NodePort || !contains(t.Node.ServiceRanges, fe.Addr) {
		suffix = " ours"
	}
	out := map[string]float64{}
	set, _ := t.Set(r.Set)
	total := float64(weight(set.Endpoints))
	for _, e := range set.Endpoints {
		name := "forward " + e.Addr.String()
		if r.Masquerade || e.Local && e.Addr.Addr() == p.src {
			name += " masquerade"
		}
		out[name+suffix] = float64(e.Weight) / total
	}
	return out
}

// anyTable generates tables whose addresses and ports lie near each other, so
// that trees of every shape come about.
func anyTable(t *rapid.T) dataplane.Table {
	table := dataplane.Table{Node: anyNode(t)}
	for i := range rapid.IntRange(2, 5).Draw(t, "sets") {
		table.Sets = append(table.Sets, anySet(t, i))
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

// anyNode generates all ways to tell Pods, marks, and node addresses: one of
// them has frontends of its own as well, one lies in the Service range.
func anyNode(t *rapid.T) dataplane.Node {
	n := dataplane.Table{Node: testNode()}.ForFamily(dataplane.IPv4).Node
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

func anySet(t *rapid.T, number int) dataplane.EndpointSet {
	s := dataplane.EndpointSet{Name: fmt.Sprint("set", number), Service: "default/x", Protocol: []dataplane.Protocol{dataplane.TCP, dataplane.UDP}[number%2]}
	for i := range rapid.IntRange(1, 30).Draw(t, "endpoints") {
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

// TestFateOfAnyPacket proves that rules do what the table says, for packets to
// every frontend and beside it, from every class of sources: every key reaches
// its own frontend, a NodePort at every address of the node and at no other, and
// no other packet does.
func TestFateOfAnyPacket(t *testing.T) {
	sources := []netip.Addr{netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("10.244.7.9"),
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("198.51.100.1")}
	elsewhere := []netip.Addr{netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("203.0.113.8"), netip.MustParseAddr("127.0.0.1")}
	rapid.Check(t, func(rt *rapid.T) {
		table := anyTable(rt)
		w := walk(Ruleset(table, dataplane.IPv4, true), table.Node, packet{dst: netip.MustParseAddr("127.0.0.1"), src: sources[0], p: dataplane.TCP})
		for _, fe := range table.Frontends {
			from := packet{src: rapid.SampledFrom(sources).Draw(rt, "source"), in: rapid.SampledFrom([]string{"", "br0", "cali1", "eth0"}).Draw(rt, "link")}
			at := []netip.Addr{fe.Addr}
			if fe.Addr.IsUnspecified() {
				at = slices.Concat(table.Node.Addrs, elsewhere)
			}
			for _, fe.Addr = range at {
				checkNear(rt, w, table, fe.Key, from)
			}
		}
	})
}

// checkNear walks packets to a key and to its neighbours.
func checkNear(t *rapid.T, w walker, table dataplane.Table, k dataplane.Key, from packet) {
	other := map[dataplane.Protocol]dataplane.Protocol{dataplane.TCP: dataplane.UDP, dataplane.UDP: dataplane.TCP}[k.Protocol]
	for _, to := range []dataplane.Key{
		k, {Addr: k.Addr, Protocol: k.Protocol, Port: k.Port + 1}, {Addr: k.Addr, Protocol: other, Port: k.Port},
		{Addr: k.Addr.Next(), Protocol: k.Protocol, Port: k.Port}, {Addr: k.Addr.Prev(), Protocol: k.Protocol, Port: k.Port},
	} {
		p := packet{src: from.src, dst: to.Addr, p: to.Protocol, port: to.Port, in: from.in}
		got, want := w.walk(p).fates, expect(table, p)
		if !maps.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-8 }) {
			t.Fatalf("%s: %v, want %v", p, got, want)
		}
	}
}
