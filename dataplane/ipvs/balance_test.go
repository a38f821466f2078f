package ipvs_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// endpoints returns n endpoints of one Pod: a port each, all answering.
func endpoints(p *lab.Host, n int) []dataplane.Endpoint {
	var eps []dataplane.Endpoint
	for i := range n {
		port := uint16(8000 + i)
		p.Serve(dataplane.TCP, port)
		eps = append(eps, on(dataplane.IPv4, port, p)...)
	}
	return eps
}

// shares counts which port answered how many of n connections.
func shares(t *testing.T, from *lab.Host, to netip.AddrPort, n int) map[uint16]int {
	t.Helper()
	got := map[uint16]int{}
	for range n {
		o := lab.Probe(from, dataplane.TCP, to, lab.Options{})
		if o.Fate != lab.OK {
			t.Fatalf("connection %d: %s", len(got), o)
		}
		got[o.Local.Port()]++
	}
	return got
}

// spread is the difference between the most and the least busy endpoint of n.
func spread(got map[uint16]int, n int) int {
	least, most := 1<<30, 0
	for i := range n {
		c := got[uint16(8000+i)]
		least, most = min(least, c), max(most, c)
	}
	return most - least
}

// Round robin deals evenly, to a connection.
func TestRoundRobin(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	eps := endpoints(n.Pod(2), 64)
	for _, count := range []int{2, 3, 7, 64} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			n.sync(newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, eps[:count]...).Table)
			got := shares(t, n.Pod(1), addrPort("10.96.0.10:80"), 6000/20)
			if s := spread(got, count); s > 1 {
				t.Errorf("shares differ by %d: %v", s, got)
			}
		})
	}
}

// Weights are shares, and a changed one is edited in place.
func TestWeights(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	eps := endpoints(n.Pod(2), 2)
	b := newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, eps...)
	n.sync(b.Table)
	b.edit(0, func(_ *dataplane.Frontend, s *dataplane.EndpointSet) { s.Endpoints[0].Weight = 3 })
	want := "~ virtual server tcp 10.96.0.10:80 for default/web: scheduler rr, want wrr\n" +
		"~ real server 10.244.0.12:8000 of tcp 10.96.0.10:80 for default/web: weight 1, want 3\n"
	if got := text(n.sync(b.Table)); got != want {
		t.Errorf("changes:\n%swant:\n%s", got, want)
	}
	if got := shares(t, n.Pod(1), addrPort("10.96.0.10:80"), 80); got[8000] != 60 || got[8001] != 20 {
		t.Errorf("shares %v, want 60 and 20", got)
	}
}

// A client with affinity keeps its endpoint until it has been silent for long
// enough; without it the connections alternate.
func TestAffinity(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	eps := endpoints(n.Pod(2), 3)
	b := newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, eps...)
	b.edit(0, func(_ *dataplane.Frontend, s *dataplane.EndpointSet) { s.Affinity = 90 * time.Second })
	n.sync(b.Table)
	if got := shares(t, n.Pod(1), addrPort("10.96.0.10:80"), 12); len(got) != 1 {
		t.Errorf("one client met %d endpoints: %v", len(got), got)
	}
	if got := n.Node.Run("ipvsadm", "-Sn"); !contains(got, "-A -t 10.96.0.10:80 -s mh -p 90 -b mh-fallback") {
		t.Errorf("ipvsadm -Sn:\n%s", got)
	}
	b.edit(0, func(_ *dataplane.Frontend, s *dataplane.EndpointSet) { s.Affinity = 5 * time.Second })
	want := "~ virtual server tcp 10.96.0.10:80 for default/web: persistence 90 s, want 5 s\n"
	if got := text(n.sync(b.Table)); got != want {
		t.Errorf("changes:\n%swant:\n%s", got, want)
	}
	b.edit(0, func(_ *dataplane.Frontend, s *dataplane.EndpointSet) { s.Affinity = 0 })
	n.sync(b.Table)
	if got := shares(t, n.Outside, addrPort("10.96.0.10:80"), 12); len(got) != 3 {
		t.Errorf("without affinity, another client met %d endpoints: %v", len(got), got)
	}
}

func TestSCTP(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	lab.Require(t, lab.SCTP)
	n.Pod(2).Serve(dataplane.SCTP, 8080)
	b := newTable().add("default/sig", "10.96.0.10", dataplane.SCTP, 80, on(dataplane.IPv4, 8080, n.Pod(2))...)
	n.sync(b.Table)
	for _, from := range []*lab.Host{n.Pod(1), n.Node, n.Outside} {
		if got := lab.Probe(from, dataplane.SCTP, addrPort("10.96.0.10:80"), lab.Options{}); got.Fate != lab.OK {
			t.Errorf("from %s: %s", from.Name, got)
		}
	}
}

// The node may be a Pod's own namespace, where only the output path exists.
func TestInsidePod(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	n.Node = n.Pod(1)
	for i := range 2 {
		n.Pod(i+1).Serve(dataplane.TCP, 8080)
	}
	n.sync(newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(1), n.Pod(2))...).Table)
	got := lab.ProbeMany(n.Pod(1), dataplane.TCP, addrPort("10.96.0.10:80"), 10)
	if got.Endpoints["p1:8080"] != 5 || got.Endpoints["p2:8080"] != 5 {
		t.Errorf("%+v, first failure %v", got.Endpoints, got.Failure)
	}
	if o := lab.Probe(n.Pod(2), dataplane.TCP, addrPort("10.96.0.10:80"), lab.Options{Timeout: 300 * time.Millisecond}); o.Fate == lab.OK {
		t.Errorf("another Pod was served by rules of this one: %s", o)
	}
}
