package ipvs_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// vips are the address of the test Service in each family.
func vips() map[dataplane.Family]string {
	return map[dataplane.Family]string{dataplane.IPv4: "10.96.0.10", dataplane.IPv6: "fd00:10:96::10"}
}

// bridges are the node's address on the Pods' bridge: what an endpoint sees of
// whom it is masqueraded to.
func bridges() map[dataplane.Family]netip.Addr {
	return map[dataplane.Family]netip.Addr{
		dataplane.IPv4: netip.MustParseAddr("10.244.0.1"), dataplane.IPv6: netip.MustParseAddr("fd00:10:244::1"),
	}
}

// Each source class reaches the endpoints, and the endpoint sees the source that
// it ought to see.
func TestReach(t *testing.T) {
	n := newNode(t, ipvs.Config{})
	for _, p := range []dataplane.Protocol{dataplane.TCP, dataplane.UDP} {
		n.Pod(2).Serve(p, 8080)
	}
	b := newTable()
	for f, vip := range vips() {
		b.add("default/web", vip, dataplane.TCP, 80, on(f, 8080, n.Pod(2))...)
		b.add("default/web:u", vip, dataplane.UDP, 80, on(f, 8080, n.Pod(2))...)
	}
	n.sync(b.Table)
	for f, vip := range vips() {
		for _, c := range []struct {
			from *lab.Host
			peer netip.Addr
		}{
			{n.Pod(1), n.Pod(1).Addr(f)}, {n.Pod(2), bridges()[f]}, {n.Node, bridges()[f]}, {n.Outside, bridges()[f]},
		} {
			for _, p := range []dataplane.Protocol{dataplane.TCP, dataplane.UDP} {
				got := lab.Probe(c.from, p, netip.AddrPortFrom(netip.MustParseAddr(vip), 80), lab.Options{})
				if got.Fate != lab.OK || got.Endpoint != "p2" || got.Peer.Addr() != c.peer {
					t.Errorf("%s %s %s: %s, seen as %s, want %s", c.from.Name, f, p, got, got.Peer.Addr(), c.peer)
				}
			}
		}
	}
}

// atOnce is less than the second after which TCP sends again: a refusal within
// it answers the first packet.
const atOnce = 900 * time.Millisecond

// What is not served: refused at once, dropped, or never a daemon of the node.
func TestRefuseAndDrop(t *testing.T) {
	n := newNode(t, ipvs.Config{})
	n.Pod(2).Serve(dataplane.TCP, 8080)
	n.Node.Serve(dataplane.TCP, 22)
	b := newTable()
	for f, vip := range vips() {
		b.add("default/web", vip, dataplane.TCP, 80, on(f, 8080, n.Pod(2))...)
		b.add("default/empty", vip, dataplane.TCP, 81)
		b.add("default/empty", vip, dataplane.UDP, 81)
		b.add("default/local", vip, dataplane.TCP, 82)
	}
	for i := range b.Frontends {
		if b.Frontends[i].Port == 82 {
			b.edit(i, func(fe *dataplane.Frontend, _ *dataplane.EndpointSet) { drop(fe) })
		}
	}
	n.sync(b.Table)
	unused := map[dataplane.Family]string{dataplane.IPv4: "10.96.9.9", dataplane.IPv6: "fd00:10:96::909"}
	leaks := n.Node.Capture(lab.Uplink)
	for f, vip := range vips() {
		for _, from := range []*lab.Host{n.Pod(1), n.Node, n.Outside} {
			for _, c := range []struct {
				what, addr string
				protocol   dataplane.Protocol
				port       uint16
				want       lab.Fate
			}{
				{"no endpoint", vip, dataplane.TCP, 81, lab.Refused}, {"no endpoint", vip, dataplane.UDP, 81, lab.Refused},
				{"port of no Service", vip, dataplane.TCP, 83, lab.Refused}, {"daemon of the node", vip, dataplane.TCP, 22, lab.Refused},
				{"policy leaves none", vip, dataplane.TCP, 82, lab.Timeout}, {"unused address", unused[f], dataplane.TCP, 80, lab.Timeout},
			} {
				got := lab.Probe(from, c.protocol, netip.AddrPortFrom(netip.MustParseAddr(c.addr), c.port), lab.Options{Timeout: atOnce})
				if got.Fate != c.want {
					t.Errorf("%s, from %s, %s %s: %s, want %s", c.what, from.Name, f, c.protocol, got, c.want)
				}
			}
		}
		if got := lab.Probe(n.Node, dataplane.TCP, netip.AddrPortFrom(n.Node.Addr(f), 22), lab.Options{}); got.Fate != lab.OK {
			t.Errorf("daemon at the node's own address: %s", got)
		}
		if sent := leaks.Sent(netip.MustParseAddr(unused[f])); sent != 0 {
			t.Errorf("%d packets to %s left the node", sent, unused[f])
		}
	}
}

func drop(fe *dataplane.Frontend) {
	for s := range fe.Routes {
		fe.Routes[s] = dataplane.Route{Verdict: dataplane.Drop}
	}
}

// TestNoPlace proves that an endpoint to which the kernel sends nothing is told,
// with its Service, and takes nothing from the other Services.
func TestNoPlace(t *testing.T) {
	n := newNode(t, ipvs.Config{})
	n.Pod(2).Serve(dataplane.TCP, 8080)
	b := newTable()
	b.add("default/a-bad", "10.96.0.9", dataplane.TCP, 80, dataplane.Endpoint{Addr: addrPort("192.0.2.255:8080"), Weight: 1})
	b.add("default/web", "10.96.0.10", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(2))...)
	for range 2 {
		err := n.tryApply(n.plan(b.Table))
		if err == nil || !contains(err.Error(), "192.0.2.255:8080") || !contains(err.Error(), "default/a-bad") {
			t.Errorf("a broadcast address as endpoint: %v", err)
		}
		if got := lab.Probe(n.Pod(1), dataplane.TCP, addrPort("10.96.0.10:80"), lab.Options{}); got.Fate != lab.OK {
			t.Errorf("the other Service: %s", got)
		}
	}
}
