package nftables

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"testing"
	"time"

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

func expectFrontend(t dataplane.Table, fe dataplane.Frontend, p packet) map[string]float64 {
	if fe.Allowed != nil && !contains(fe.Allowed, p.src) {
		return map[string]float64{"drop": 1}
	}
	class := dataplane.FromOutside
	switch {
	case len(t.Node.PodRanges) == 0 || contains(t.Node.PodRanges, p.src):
		class = dataplane.FromPod
	case p.src == t.Node.Addrs[0]:
		class = dataplane.FromNode
	}
	r := fe.Routes[class]
	if r.Verdict != dataplane.Forward {
		return map[string]float64{r.Verdict.String(): 1}
	}
	suffix := ""
	if r.Masquerade {
		suffix = " masquerade"
	}
	out := map[string]float64{}
	set, _ := t.Set(r.Set)
	total := weights(set.Endpoints)
	for _, e := range set.Endpoints {
		out["forward "+e.Addr.String()+suffix] = float64(e.Weight) / total
	}
	return out
}

// weights adds up the weights of endpoints.
func weights(eps []dataplane.Endpoint) (sum float64) {
	for _, e := range eps {
		sum += float64(e.Weight)
	}
	return sum
}

// anyTable generates tables whose addresses and ports lie near each other, so
// that trees of every shape come about.
func anyTable(t *rapid.T) dataplane.Table {
	table := dataplane.Table{Node: testNode()}.ForFamily(dataplane.IPv4)
	table.Node.PodRanges = rapid.SampledFrom([][]netip.Prefix{nil, table.Node.PodRanges,
		{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("10.244.7.0/24")}}).Draw(t, "pods")
	for i := range rapid.IntRange(1, 4).Draw(t, "sets") {
		table.Sets = append(table.Sets, anySet(t, i))
	}
	route := rapid.Custom(func(t *rapid.T) dataplane.Route {
		r := dataplane.Route{Verdict: rapid.SampledFrom([]dataplane.Verdict{dataplane.Forward, dataplane.Forward, dataplane.Refuse, dataplane.Drop}).Draw(t, "verdict")}
		if r.Verdict == dataplane.Forward {
			r.Set = rapid.SampledFrom(table.Sets).Draw(t, "set").Name
			r.Masquerade = rapid.Bool().Draw(t, "masquerade")
		}
		return r
	})
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
			fe.Routes[s] = route.Draw(t, "route")
		}
		if rapid.IntRange(0, 5).Draw(t, "restricted") == 0 {
			fe.Allowed = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/30"), netip.MustParsePrefix("192.0.2.0/24")}
		}
		table.Frontends = append(table.Frontends, fe)
	}
	table.Sort()
	return table
}

func anySet(t *rapid.T, number int) dataplane.EndpointSet {
	s := dataplane.EndpointSet{Name: fmt.Sprint("set", number), Service: "default/x", Protocol: dataplane.TCP,
		Affinity: rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(t, "affinity")}
	for i := range rapid.IntRange(1, 40).Draw(t, "endpoints") {
		s.Endpoints = append(s.Endpoints, dataplane.Endpoint{
			Addr:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(number), byte(i)}), 8080),
			Weight: rapid.SampledFrom([]uint16{1, 1, 1, 3, 10}).Draw(t, "weight"),
			Local:  true,
		})
	}
	return s
}

// anyKey keeps TCP only where endpoints are delivered to by protocol.
func anyKey(t *rapid.T) dataplane.Key {
	digit := rapid.SampledFrom([]byte{0, 1, 15, 16, 17, 32, 128, 255})
	addr := rapid.SampledFrom([]netip.Addr{
		netip.AddrFrom4([4]byte{10, 96, digit.Draw(t, "c"), digit.Draw(t, "d")}),
		netip.AddrFrom4([4]byte{10, 96, 0, byte(rapid.IntRange(0, 255).Draw(t, "e"))}),
		netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.96.0.10"),
	}).Draw(t, "address")
	port := rapid.OneOf(rapid.Uint16Range(1, 20), rapid.Uint16Range(8000, 8400), rapid.Uint16Range(30000, 30100)).Draw(t, "port")
	return dataplane.Key{Addr: addr, Protocol: dataplane.TCP, Port: port}
}

// TestFateOfAnyPacket proves that rules do what the table says, for packets to
// every frontend and beside it, from every class of sources: every key reaches
// its own frontend, and no other packet does.
func TestFateOfAnyPacket(t *testing.T) {
	sources := []netip.Addr{netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("10.244.7.9"),
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("198.51.100.1")}
	rapid.Check(t, func(rt *rapid.T) {
		table := anyTable(rt)
		w := newWalker(build(table, dataplane.IPv4), table.Node)
		for _, fe := range table.Frontends {
			if !fe.Addr.IsUnspecified() {
				checkNear(rt, w, table, fe.Key, rapid.SampledFrom(sources).Draw(rt, "source"))
				continue
			}
			fe.Addr = table.Node.Addrs[0]
			checkNear(rt, w, table, fe.Key, rapid.SampledFrom(sources).Draw(rt, "source"))
		}
	})
}

// checkNear walks packets to a key and to its neighbours.
func checkNear(t *rapid.T, w *walker, table dataplane.Table, k dataplane.Key, src netip.Addr) {
	for _, p := range []packet{
		{src, k.Addr, k.Protocol, k.Port}, {src, k.Addr, k.Protocol, k.Port + 1}, {src, k.Addr, dataplane.UDP, k.Port},
		{src, k.Addr.Next(), k.Protocol, k.Port}, {src, k.Addr.Prev(), k.Protocol, k.Port},
	} {
		if p.p == dataplane.UDP {
			if _, ok := table.Frontend(k); !ok {
				continue
			}
		}
		got, want := w.walk(t, p), expect(table, p)
		if !maps.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-8 }) {
			t.Fatalf("%s: %v, want %v", p, got, want)
		}
	}
}
