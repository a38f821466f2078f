package iptables

import (
	"errors"
	"math"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
)

// both returns an IPv4 address and port of the lab, and the IPv6 one that goes
// with it.
func both(t *testing.T, at string) []netip.AddrPort {
	t.Helper()
	v4 := netip.MustParseAddrPort(at)
	v6, ok := lab.Twin(v4.Addr())
	if !ok {
		t.Fatalf("%s has no IPv6 address in the lab", at)
	}
	return []netip.AddrPort{v4, netip.AddrPortFrom(v6, v4.Port())}
}

// service adds a ClusterIP in both families, with the given Pods as endpoints.
func service(t *testing.T, table *dataplane.Table, name, at string, p dataplane.Protocol, pods ...*lab.Host) {
	t.Helper()
	for _, vip := range both(t, at) {
		var eps []string
		for _, pod := range pods {
			eps = append(eps, netip.AddrPortFrom(pod.Addr(dataplane.FamilyOf(vip.Addr())), 8080).String())
		}
		clusterIP(table, name, vip.String(), p, eps...)
	}
}

// programmed builds a lab whose node holds the table that fill makes.
func programmed(t *testing.T, e xtables.Engine, fill func(l *lab.Lab, table *dataplane.Table)) *lab.Lab {
	t.Helper()
	l := lab.New(t)
	for _, p := range l.Pods {
		p.Serve(dataplane.TCP, 8080)
		p.Serve(dataplane.UDP, 8080)
	}
	table := dataplane.Table{Node: testNode()}
	fill(l, &table)
	l.Node.Do(func() { converge(t, New(Config{Engine: e}), table) })
	return l
}

// fates is the table of TestFates: web has endpoints p2 and p3, self only p1.
func fates(t *testing.T) func(l *lab.Lab, table *dataplane.Table) {
	return func(l *lab.Lab, table *dataplane.Table) {
		service(t, table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pod(2), l.Pod(3))
		service(t, table, "default/web", "10.96.0.10:80", dataplane.UDP, l.Pod(2), l.Pod(3))
		service(t, table, "default/self", "10.96.0.11:80", dataplane.TCP, l.Pod(1))
		service(t, table, "default/empty", "10.96.0.12:80", dataplane.TCP)
		service(t, table, "default/empty", "10.96.0.12:80", dataplane.UDP)
	}
}

// TestFates proves what becomes of packets from a Pod, the node and outside, in
// both families, and whose source the endpoint sees.
func TestFates(t *testing.T) {
	const short = 300 * time.Millisecond
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, fates(t))
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
				for _, at := range both(t, tc.at) {
					out := lab.Probe(from, tc.p, at, lab.Options{Timeout: short})
					if out.Fate != tc.want && !toldAtOnce(from == l.Node, tc.p, out) {
						t.Errorf("%s: from %s to %s: %s (%v), want %s", tc.name, from.Name, at, out, out.Err, tc.want)
					}
					checkSource(t, l, from, tc.at, out)
				}
			}
		}
	})
}

// toldAtOnce reports the fate of a datagram that a process of the node itself
// sends and that the rules reject or drop: on its way out there is no packet to
// lose, so the kernel fails the very call that sends it.
func toldAtOnce(own bool, p dataplane.Protocol, out lab.Outcome) bool {
	return own && p == dataplane.UDP && errors.Is(out.Err, syscall.EPERM)
}

// checkSource requires that Pods are seen with their own address, unless they
// reach themselves, and all others with the node's.
func checkSource(t *testing.T, l *lab.Lab, from *lab.Host, at string, out lab.Outcome) {
	t.Helper()
	if out.Fate != lab.OK {
		return
	}
	rewritten := from != l.Pod(1) || out.Endpoint == from.Name
	if out.Masqueraded() != rewritten {
		t.Errorf("from %s to %s: %s, want rewritten %v", from.Name, at, out, rewritten)
	}
}

// TestNoLeak proves that packets to unallocated addresses and refused ones do
// not leave the node.
func TestNoLeak(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, fates(t))
		watch := l.Node.Capture(lab.Uplink)
		for _, at := range append(both(t, "10.96.0.13:80"), both(t, "10.96.0.12:80")...) {
			for _, from := range []*lab.Host{l.Pod(1), l.Node} {
				lab.Probe(from, dataplane.TCP, at, lab.Options{Timeout: 100 * time.Millisecond})
			}
			if n := watch.Sent(at.Addr()); n != 0 {
				t.Errorf("%d packets to %s left the node", n, at)
			}
		}
	})
}

// TestForwardPolicy proves that a host whose FORWARD policy is DROP serves, and
// that a rule of its administrator still comes first.
func TestForwardPolicy(t *testing.T) {
	at := netip.MustParseAddrPort("10.96.0.10:80")
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t)
		l.Pod(2).Serve(dataplane.TCP, 8080)
		tool := "iptables-" + e.String()
		rule := []string{"FORWARD", "-s", l.Outside.IPv4.String(), "-j", "DROP"}
		l.Node.Run(tool, "-P", "FORWARD", "DROP")
		l.Node.Run(append([]string{tool, "-A"}, rule...)...)
		table := dataplane.Table{Node: testNode()}
		service(t, &table, "default/web", at.String(), dataplane.TCP, l.Pod(2))
		l.Node.Do(func() { converge(t, New(Config{Engine: e}), table) })
		if out := lab.Probe(l.Outside, dataplane.TCP, at, lab.Options{Timeout: 200 * time.Millisecond}); out.Fate != lab.Timeout {
			t.Errorf("against the administrator's rule: %s, want TIMEOUT", out)
		}
		l.Node.Run(append([]string{tool, "-D"}, rule...)...)
		if out := lab.Probe(l.Outside, dataplane.TCP, at, lab.Options{}); out.Fate != lab.OK {
			t.Errorf("with FORWARD policy DROP: %s, want OK", out)
		}
	})
}

// TestForwardPods proves that on a host whose FORWARD policy is DROP Pods reach
// each other directly through the node, both ways and in both families, that
// nobody else gets in by that, and that a rule of its administrator comes first.
func TestForwardPods(t *testing.T) {
	const short = 200 * time.Millisecond
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.SecondNode())
		here, there := l.Pod(1), l.Remote
		here.Serve(dataplane.TCP, 8080)
		there.Serve(dataplane.TCP, 8080)
		for _, tool := range []string{"iptables-", "ip6tables-"} {
			l.Node.Run(tool+e.String(), "-P", "FORWARD", "DROP")
		}
		try := func(from, to *lab.Host, want lab.Fate) {
			t.Helper()
			for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
				at := netip.AddrPortFrom(to.Addr(f), 8080)
				if out := lab.Probe(from, dataplane.TCP, at, lab.Options{Timeout: short}); out.Fate != want {
					t.Errorf("%s from %s to %s: %s, want %s", f, from.Name, to.Name, out, want)
				}
			}
		}
		try(here, there, lab.Timeout)
		l.Node.Do(func() { converge(t, New(Config{Engine: e}), dataplane.Table{Node: testNode()}) })
		try(here, there, lab.OK)
		try(there, here, lab.OK)
		try(l.Outside, here, lab.Timeout)
		for _, tool := range []string{"iptables-", "ip6tables-"} {
			l.Node.Run(tool+e.String(), "-I", "FORWARD", "-i", lab.Uplink, "-j", "DROP")
		}
		try(there, here, lab.Timeout)
	})
}

// TestShares proves that endpoints get equal parts of the connections: each lies
// within the 99.9 % range of the binomial distribution.
func TestShares(t *testing.T) {
	const n = 3000
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, func(l *lab.Lab, table *dataplane.Table) {
			service(t, table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pods...)
		})
		got := lab.ProbeMany(l.Node, dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), n)
		expected, reach := float64(n)/3, 5*math.Sqrt(n*(1.0/3)*(2.0/3)) // five standard deviations: never by chance
		for _, p := range l.Pods {
			if math.Abs(float64(got.Endpoints[p.Name+":8080"])-expected) > reach {
				t.Errorf("%s answered %d of %d, want %.0f ± %.0f", p.Name, got.Endpoints[p.Name+":8080"], n, expected, reach)
			}
		}
		if got.Fates[lab.OK] != n {
			t.Errorf("fates %v, first failure %v", got.Fates, got.Failure)
		}
	})
}

// TestAffinity proves that a client stays with the endpoint it reached first,
// in both families, and that two ports of one Service remember apart.
func TestAffinity(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, func(l *lab.Lab, table *dataplane.Table) {
			service(t, table, "default/web:a", "10.96.0.10:80", dataplane.TCP, l.Pods...)
			for i := range table.Sets {
				table.Sets[i].Affinity = time.Hour
			}
		})
		for _, at := range both(t, "10.96.0.10:80") {
			for _, from := range []*lab.Host{l.Pod(1), l.Node, l.Outside} {
				if got := lab.ProbeMany(from, dataplane.TCP, at, 20); len(got.Endpoints) != 1 || got.Fates[lab.OK] != 20 {
					t.Errorf("20 connections from %s to %s: %v, want one endpoint for all", from.Name, at, got.Endpoints)
				}
			}
		}
	})
}

// TestAffinityEnds proves that the memory ends when its time is over: with a
// second of it, clients spread again.
func TestAffinityEnds(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, func(l *lab.Lab, table *dataplane.Table) {
			service(t, table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pods...)
			for i := range table.Sets {
				table.Sets[i].Affinity = time.Second
			}
		})
		seen := map[string]bool{}
		for deadline := time.Now().Add(60 * time.Second); len(seen) < 2 && time.Now().Before(deadline); {
			out := lab.Probe(l.Pod(1), dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), lab.Options{})
			seen[out.Endpoint] = true
			time.Sleep(2 * time.Second) // the memory is whole seconds of the kernel's clock
		}
		if len(seen) < 2 {
			t.Errorf("always %v", seen)
		}
	})
}

// TestOwnNamespace proves that a Pod's own namespace can be the node: only the
// output path is met there, and nothing of the real node is needed.
func TestOwnNamespace(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t)
		for _, p := range l.Pods[1:] {
			p.Serve(dataplane.TCP, 8080)
		}
		table := dataplane.Table{Node: testNode()}
		service(t, &table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pod(2), l.Pod(3))
		service(t, &table, "default/empty", "10.96.0.12:80", dataplane.TCP)
		l.Pod(1).Do(func() { converge(t, New(Config{Engine: e}), table) })
		for _, at := range both(t, "10.96.0.10:80") {
			if out := lab.Probe(l.Pod(1), dataplane.TCP, at, lab.Options{}); out.Fate != lab.OK || out.Masqueraded() {
				t.Errorf("%s: %s, want OK with the Pod's own source", at, out)
			}
		}
		for _, at := range both(t, "10.96.0.12:80") {
			if out := lab.Probe(l.Pod(1), dataplane.TCP, at, lab.Options{}); out.Fate != lab.Refused {
				t.Errorf("%s: %s, want REFUSED", at, out)
			}
		}
	})
}
