package ipvs

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

// senders are one packet of each class of sources, and two endpoints.
func senders() []dataplane.Packet {
	own := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.244.0.1")}
	from := func(src, in string) dataplane.Packet {
		return dataplane.Packet{Src: netip.MustParseAddr(src), In: in, Own: own}
	}
	return []dataplane.Packet{from("10.244.0.99", "br0"), from("10.244.0.10", "br0"), from("10.244.0.1", "br0"), from("192.0.2.1", ""), from("198.51.100.99", "eth0")}
}

// TestFateOfAnyPacket proves that sets, rules, routes and virtual servers together
// do what the table says, for packets to every frontend and beside it, from every
// class of sources.
func TestFateOfAnyPacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := randomTable(rapid.Uint64().Draw(t, "table"))
		g := newTarget(table, dataplane.IPv4, "rr").ground()
		for _, fe := range table.Frontends {
			if fe.Kind == dataplane.NodePort {
				fe.Addr = table.Node.Addrs[0]
			}
			for _, p := range senders() {
				for _, p.Key = range []dataplane.Key{
					fe.Key, {Addr: fe.Addr, Protocol: dataplane.TCP, Port: fe.Port + 7}, {Addr: fe.Addr, Protocol: dataplane.UDP, Port: fe.Port},
					{Addr: netip.MustParseAddr("10.96.9.9"), Protocol: dataplane.TCP, Port: fe.Port},
				} {
					got, want := fatesOf(g.walk(p)), expect(table, p)
					if !maps.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-8 }) {
						t.Fatalf("from %s by %q to %s: %v, want %v", p.Src, p.In, p.Key, got, want)
					}
				}
			}
		}
	})
}

// fatesOf sums up a trace.
func fatesOf(tr dataplane.Trace) map[string]float64 {
	out := map[string]float64{}
	for _, o := range tr.Outcomes {
		name := o.Fate.String()
		if o.Fate == dataplane.Delivered {
			name += " " + o.Endpoint.String()
		}
		if o.Masquerade {
			name += " masquerade"
		}
		out[name] += o.Share
	}
	return out
}

// expect says by the table alone what has to become of a packet.
func expect(t dataplane.Table, p dataplane.Packet) map[string]float64 {
	within := func(list []netip.Prefix, a netip.Addr) bool {
		return slices.ContainsFunc(list, func(r netip.Prefix) bool { return r.Contains(a) })
	}
	fe, found := t.Dialled(p)
	known := slices.ContainsFunc(t.Frontends, func(fe dataplane.Frontend) bool { return fe.Addr == p.Addr })
	switch r := fe.Routes[t.Node.Class(p)]; {
	case !found && within(t.Node.ServiceRanges, p.Addr) && known:
		return map[string]float64{"refused": 1}
	case !found && within(t.Node.ServiceRanges, p.Addr):
		return map[string]float64{"dropped": 1}
	case !found:
		return map[string]float64{"passed": 1}
	case fe.Allowed != nil && !within(fe.Allowed, p.Src), r.Verdict == dataplane.Drop:
		return map[string]float64{"dropped": 1}
	case r.Verdict == dataplane.Refuse:
		return map[string]float64{"refused": 1}
	default:
		return expectEndpoints(t, r, p)
	}
}

func expectEndpoints(t dataplane.Table, r dataplane.Route, p dataplane.Packet) map[string]float64 {
	set, _ := t.Set(r.Set)
	out, total := map[string]float64{}, 0.0
	for _, e := range set.Endpoints {
		total += float64(e.Weight)
	}
	for _, e := range set.Endpoints {
		name := "delivered " + e.Addr.String()
		if r.Masquerade || e.Local && e.Addr.Addr() == p.Src {
			name += " masquerade"
		}
		out[name] = float64(e.Weight) / total
	}
	return out
}

// TestWalk proves that a way is told hook by hook, with the route that takes the
// packet in and the virtual server that chooses.
func TestWalk(t *testing.T) {
	tab := table(frontend("10.96.0.10", 80))
	for _, tc := range []struct {
		name, src, in string
		port          uint16
		want          []string
	}{
		{"from a Pod", "10.244.0.99", "br0", 80, []string{
			"nat PREROUTING entry", "nat PREROUTING class", "routing dispatch route local 10.96.0.10 dev lo table local proto 84", "filter INPUT entry",
			"IPVS at INPUT dispatch -A -t 10.96.0.10:80 -s rr", "IPVS at INPUT choice -a -t 10.96.0.10:80 -r 10.244.0.5:8080 -m -w 1",
			"IPVS at INPUT choice -a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1", "filter OUTPUT entry", "nat POSTROUTING entry", "nat POSTROUTING passage"}},
		{"of the node", "192.0.2.1", "", 80, []string{
			"nat OUTPUT entry", "nat OUTPUT masquerading", "IPVS at OUTPUT dispatch", "IPVS at OUTPUT choice", "IPVS at OUTPUT choice", "filter OUTPUT entry",
			"nat POSTROUTING entry", "nat POSTROUTING masquerading", "nat POSTROUTING masquerading"}},
		{"another port", "10.244.0.99", "br0", 81, []string{
			"nat PREROUTING entry", "nat PREROUTING dispatch", "routing dispatch", "filter INPUT entry", "filter INPUT unserved"}},
		{"another port, of the node", "192.0.2.1", "", 81, []string{
			"nat OUTPUT entry", "nat OUTPUT unserved", "nat OUTPUT refusal", "filter OUTPUT entry", "filter OUTPUT entry", "filter OUTPUT refusal"}},
	} {
		p := dataplane.Packet{Key: dataplane.Key{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: dataplane.TCP, Port: tc.port},
			Src: netip.MustParseAddr(tc.src), In: tc.in, Own: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
		tr, err := New(Config{}).Walk(tab, p)
		if err != nil {
			t.Fatal(err)
		}
		ok := len(tr.Steps) == len(tc.want)
		var got []string
		for i, s := range tr.Steps {
			got = append(got, fmt.Sprintf("%s %s %s", s.Hook, s.Subject, s.Rule))
			ok = ok && strings.HasPrefix(got[i], tc.want[i])
		}
		if !ok {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}
