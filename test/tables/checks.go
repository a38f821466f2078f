package tables

import (
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// Each of these checks is a test by itself: it builds a lab, has its node
// programmed and sends packets through it, in both families.

// webSelfEmpty fills a table: web has endpoints p2 and p3, self only p1, empty
// none.
func webSelfEmpty(t *testing.T) func(*lab.Lab, *dataplane.Table) {
	return func(l *lab.Lab, table *dataplane.Table) {
		Service(t, table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pod(2), l.Pod(3))
		Service(t, table, "default/web", "10.96.0.10:80", dataplane.UDP, l.Pod(2), l.Pod(3))
		Service(t, table, "default/self", "10.96.0.11:80", dataplane.TCP, l.Pod(1))
		Service(t, table, "default/empty", "10.96.0.12:80", dataplane.TCP)
		Service(t, table, "default/empty", "10.96.0.12:80", dataplane.UDP)
	}
}

// CheckFates requires what becomes of packets from a Pod, the node and outside,
// and whose source the endpoint sees.
func CheckFates(t *testing.T, program Program) {
	const short = 300 * time.Millisecond
	l := Programmed(t, program, webSelfEmpty(t))
	for _, tc := range []struct {
		name, at string
		p        dataplane.Protocol
		want     lab.Fate
	}{
		{"endpoints", "10.96.0.10:80", dataplane.TCP, lab.OK},
		{"endpoints over UDP", "10.96.0.10:80", dataplane.UDP, lab.OK},
		{"only the client itself", "10.96.0.11:80", dataplane.TCP, lab.OK},
		{"no endpoint", "10.96.0.12:80", dataplane.TCP, lab.Refused},
		{"no endpoint over UDP", "10.96.0.12:80", dataplane.UDP, lab.Refused},
		{"port that nobody has", "10.96.0.10:81", dataplane.TCP, lab.Refused},
		{"protocol that nobody has", "10.96.0.11:80", dataplane.UDP, lab.Refused},
		{"address that nobody has", "10.96.0.13:80", dataplane.TCP, lab.Timeout},
		{"address that nobody has, UDP", "10.96.0.13:80", dataplane.UDP, lab.Timeout},
	} {
		for _, from := range []*lab.Host{l.Pod(1), l.Node, l.Outside} {
			for _, at := range Both(t, tc.at) {
				out := lab.Probe(from, tc.p, at, lab.Options{Timeout: short})
				if out.Fate != tc.want && !toldAtOnce(from == l.Node, tc.p, out) {
					t.Errorf("%s: from %s to %s: %s (%v), want %s", tc.name, from.Name, at, out, out.Err, tc.want)
				}
				checkSource(t, l, from, tc.at, out)
			}
		}
	}
}

// CheckNoLeak requires that packets to unallocated addresses and refused ones do
// not leave the node.
func CheckNoLeak(t *testing.T, program Program) {
	l := Programmed(t, program, webSelfEmpty(t))
	watch := l.Node.Capture(lab.Uplink)
	for _, at := range append(Both(t, "10.96.0.13:80"), Both(t, "10.96.0.12:80")...) {
		for _, from := range []*lab.Host{l.Pod(1), l.Node} {
			lab.Probe(from, dataplane.TCP, at, lab.Options{Timeout: 100 * time.Millisecond})
		}
		if n := watch.Sent(at.Addr()); n != 0 {
			t.Errorf("%d packets to %s left the node", n, at)
		}
	}
}

// CheckShares requires that endpoints get equal parts of the connections: each
// lies within five standard deviations of the binomial distribution, never
// outside by chance.
func CheckShares(t *testing.T, program Program) {
	const n = 3000
	l := Programmed(t, program, func(l *lab.Lab, table *dataplane.Table) {
		Service(t, table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pods...)
	})
	got := lab.ProbeMany(l.Node, dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), n)
	expected, reach := float64(n)/3, 5*math.Sqrt(n*(1.0/3)*(2.0/3))
	for _, p := range l.Pods {
		if math.Abs(float64(got.Endpoints[p.Name+":8080"])-expected) > reach {
			t.Errorf("%s answered %d of %d, want %.0f ± %.0f", p.Name, got.Endpoints[p.Name+":8080"], n, expected, reach)
		}
	}
	if got.Fates[lab.OK] != n {
		t.Errorf("fates %v, first failure %v", got.Fates, got.Failure)
	}
}

// sticky fills a table with one Service whose clients stay with an endpoint.
func sticky(t *testing.T, name string, memory time.Duration) func(*lab.Lab, *dataplane.Table) {
	return func(l *lab.Lab, table *dataplane.Table) {
		Service(t, table, name, "10.96.0.10:80", dataplane.TCP, l.Pods...)
		for i := range table.Sets {
			table.Sets[i].Affinity = memory
		}
	}
}

// CheckAffinity requires that a client stays with the endpoint it reached first.
func CheckAffinity(t *testing.T, program Program) {
	l := Programmed(t, program, sticky(t, "default/web:a", time.Hour))
	for _, at := range Both(t, "10.96.0.10:80") {
		for _, from := range []*lab.Host{l.Pod(1), l.Node, l.Outside} {
			if got := lab.ProbeMany(from, dataplane.TCP, at, 20); len(got.Endpoints) != 1 || got.Fates[lab.OK] != 20 {
				t.Errorf("20 connections from %s to %s: %v, want one endpoint for all", from.Name, at, got.Endpoints)
			}
		}
	}
}

// CheckAffinityEnds requires that the memory ends when its time is over: with a
// second of it, clients spread again.
func CheckAffinityEnds(t *testing.T, program Program) {
	l := Programmed(t, program, sticky(t, "default/web", time.Second))
	seen := map[string]bool{}
	for deadline := time.Now().Add(60 * time.Second); len(seen) < 2 && time.Now().Before(deadline); {
		out := lab.Probe(l.Pod(1), dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), lab.Options{})
		seen[out.Endpoint] = true
		time.Sleep(2 * time.Second) // the memory is whole seconds of the kernel's clock
	}
	if len(seen) < 2 {
		t.Errorf("always %v", seen)
	}
}

// CheckOwnNamespace requires that a Pod's own namespace can be the node: only
// the output path is met there, and nothing of the real node is needed.
func CheckOwnNamespace(t *testing.T, program Program) {
	l := lab.New(t)
	for _, p := range l.Pods[1:] {
		p.Serve(dataplane.TCP, 8080)
	}
	table := dataplane.Table{Node: Node()}
	Service(t, &table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pod(2), l.Pod(3))
	Service(t, &table, "default/empty", "10.96.0.12:80", dataplane.TCP)
	l.Pod(1).Do(func() { program(t, table) })
	for _, at := range Both(t, "10.96.0.10:80") {
		if out := lab.Probe(l.Pod(1), dataplane.TCP, at, lab.Options{}); out.Fate != lab.OK || out.Masqueraded() {
			t.Errorf("%s: %s, want OK with the Pod's own source", at, out)
		}
	}
	for _, at := range Both(t, "10.96.0.12:80") {
		if out := lab.Probe(l.Pod(1), dataplane.TCP, at, lab.Options{}); out.Fate != lab.Refused {
			t.Errorf("%s: %s, want REFUSED", at, out)
		}
	}
}

// CheckAffinityLetsGo requires that a client leaves an endpoint that left the
// set, and that two frontends of one Service share their memory.
func CheckAffinityLetsGo(t *testing.T, program Program) {
	l := lab.New(t)
	for _, p := range l.Pods {
		p.Serve(dataplane.TCP, 8080)
	}
	serve := func(pods ...*lab.Host) {
		table := dataplane.Table{Node: Node()}
		Service(t, &table, "default/web", "10.96.0.10:80", dataplane.TCP, pods...)
		for i := range table.Sets {
			table.Sets[i].Affinity = time.Hour
		}
		for _, fe := range slices.Clone(table.Frontends) {
			fe.Port = 8080
			table.Frontends = append(table.Frontends, fe)
		}
		table.Sort()
		l.Node.Do(func() { program(t, table) })
	}
	serve(l.Pod(2), l.Pod(3))
	at := netip.MustParseAddrPort("10.96.0.10:80")
	first := lab.Probe(l.Pod(1), dataplane.TCP, at, lab.Options{})
	other := lab.ProbeMany(l.Pod(1), dataplane.TCP, netip.AddrPortFrom(at.Addr(), 8080), 20)
	if len(other.Endpoints) != 1 || other.Endpoints[first.Name()] != 20 {
		t.Errorf("first %s, then by the other port %v", first, other.Endpoints)
	}
	stays, goes := l.Pod(2), l.Pod(3)
	if first.Endpoint == "p2" {
		stays, goes = goes, stays
	}
	serve(stays, l.Pod(1))
	if out := lab.ProbeMany(l.Pod(1), dataplane.TCP, at, 20); out.Fates[lab.OK] != 20 || out.Endpoints[goes.Name+":8080"] > 0 || len(out.Endpoints) != 1 {
		t.Errorf("after %s left: %v", goes.Name, out.Endpoints)
	}
}

// CheckWeights requires that shares follow weights.
func CheckWeights(t *testing.T, program Program) {
	for _, weights := range [][]uint16{{1, 3, 1}, {10, 20, 70}} {
		l := Programmed(t, program, func(l *lab.Lab, table *dataplane.Table) {
			Service(t, table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pods...)
			for i := range table.Sets {
				for e := range table.Sets[i].Endpoints {
					table.Sets[i].Endpoints[e].Weight = weights[e]
				}
			}
		})
		const n = 2000
		got := lab.ProbeMany(l.Node, dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), n)
		total := float64(weights[0] + weights[1] + weights[2])
		for i, p := range l.Pods {
			share := float64(weights[i]) / total
			if have := float64(got.Endpoints[p.Name+":8080"]) / n; have < share-0.05 || have > share+0.05 {
				t.Errorf("weights %v: %s got %.3f, want %.3f", weights, p.Name, have, share)
			}
		}
	}
}
