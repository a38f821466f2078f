package ipvs

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

// many is a table of n Services with ten endpoints each, of which nine live
// elsewhere, laid out as an allocator of addresses does: one after the other.
func many(n int) dataplane.Table {
	t := table()
	t.Sets = nil
	addr := netip.MustParseAddr("10.96.0.1")
	for i := range n {
		fe := frontend(addr.String(), 80)
		fe.Service = fmt.Sprintf("default/s%d:http", i)
		set := dataplane.EndpointSet{Name: fe.Service, Service: fe.Service, Protocol: dataplane.TCP}
		for s := range fe.Routes {
			fe.Routes[s].Set = set.Name
		}
		for e := range 10 {
			a := netip.AddrFrom4([4]byte{10, byte(200 + e), byte(i / 250), byte(1 + i%250)})
			set.Endpoints = append(set.Endpoints, dataplane.Endpoint{Addr: netip.AddrPortFrom(a, 8080), Weight: 1, Local: e == 0})
		}
		t.Frontends, t.Sets = append(t.Frontends, fe), append(t.Sets, set)
		addr = addr.Next()
	}
	t.Sort()
	return t
}

// holding is a kernel that holds exactly a target.
func holding(want target) observed {
	o := observed{family: want.family, servers: map[serverID]*virtualServer{}, routes: map[netip.Addr]heldRoute{}}
	for k := range setKinds {
		if !want.has(k) {
			continue
		}
		o.sets[k] = &heldSet{typeName: k.Type(), capacity: capacity(len(want.sets[k])), entries: map[entry]struct{}{}}
		for e := range want.sets[k] {
			o.sets[k].entries[e] = struct{}{}
		}
	}
	for e := range want.sets[addresses] {
		o.routes[e.addr] = heldRoute{loopback: true}
	}
	o.inbound, o.policies = map[netip.Addr]heldRoute{}, want.policies()
	for e := range want.sets[arrivals] {
		o.inbound[e.addr] = heldRoute{loopback: true}
	}
	for _, v := range want.servers {
		o.servers[v.serverID] = &v
	}
	return o
}

// BenchmarkRender measures the way from a table to the text of all parts.
func BenchmarkRender(b *testing.B) {
	for _, n := range [...]int{100, 1000, 10_000} {
		t := many(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if text, err := New(Config{}).Render(t); err != nil || text == "" {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDifference measures the way from a table to the steps, when one
// endpoint differs from what the kernel holds.
func BenchmarkDifference(b *testing.B) {
	for _, n := range [...]int{100, 1000, 10_000} {
		have := holding(newTarget(many(n), dataplane.IPv4, "rr"))
		t := many(n)
		t.Sets[n/2].Endpoints[3].Addr = netip.MustParseAddrPort("10.244.9.9:8080")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				want := newTarget(t, dataplane.IPv4, "rr")
				// One real server comes, one goes.
				if got := before(want, have).count() + after(want, have).count(); got != 2 {
					b.Fatalf("%d steps", got)
				}
			}
		})
	}
}

// BenchmarkRemember measures what a follower needs beside a whole pass.
func BenchmarkRemember(b *testing.B) {
	for _, n := range [...]int{100, 1000, 10_000} {
		want := newTarget(many(n), dataplane.IPv4, "rr")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s := &side{familyState: familyState{family: dataplane.IPv4}, table: want, want: want, have: holding(want)}
				if remember([]*side{s}, nil) == nil {
					b.Fatal("nothing is remembered")
				}
			}
		})
	}
}
