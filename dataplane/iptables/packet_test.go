package iptables

import (
	"net/netip"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// program makes a namespace match a table by an engine, for the checks that all
// backends share.
func program(e xtables.Engine) tables.Program {
	return func(t testing.TB, table dataplane.Table) {
		t.Helper()
		converge(t, New(Config{Engine: e}), table)
	}
}

// programmed builds a lab with three Pods that serve, whose node holds the table
// that fill makes.
func programmed(t *testing.T, e xtables.Engine, fill func(*lab.Lab, *dataplane.Table)) *lab.Lab {
	t.Helper()
	return tables.Programmed(t, program(e), fill)
}

// eachCheck runs a check that all backends share for every engine.
func eachCheck(t *testing.T, check func(*testing.T, tables.Program)) {
	t.Helper()
	eachEngine(t, func(t *testing.T, e xtables.Engine) { check(t, program(e)) })
}

// TestFates proves what becomes of packets from a Pod, the node and outside.
func TestFates(t *testing.T) { eachCheck(t, tables.CheckFates) }

// TestNoLeak proves that what is refused or dropped does not leave the node.
func TestNoLeak(t *testing.T) { eachCheck(t, tables.CheckNoLeak) }

// TestShares proves that endpoints get equal parts of the connections.
func TestShares(t *testing.T) { eachCheck(t, tables.CheckShares) }

// TestWeights proves that shares follow weights.
func TestWeights(t *testing.T) { eachCheck(t, tables.CheckWeights) }

// TestAffinity proves that a client stays with the endpoint it reached first.
func TestAffinity(t *testing.T) { eachCheck(t, tables.CheckAffinity) }

// TestAffinityEnds proves that the memory ends when its time is over.
func TestAffinityEnds(t *testing.T) { eachCheck(t, tables.CheckAffinityEnds) }

// TestAffinityLetsGo proves that a client leaves an endpoint that left the set,
// and that its memory is shared by two frontends of one Service.
func TestAffinityLetsGo(t *testing.T) { eachCheck(t, tables.CheckAffinityLetsGo) }

// TestOwnNamespace proves that a Pod's own namespace can be the node.
func TestOwnNamespace(t *testing.T) { eachCheck(t, tables.CheckOwnNamespace) }

// TestDoors proves that each source class meets its own fate at each door.
func TestDoors(t *testing.T) { eachCheck(t, tables.CheckDoors) }

// TestOtherPorts proves that a port that no frontend has is ours to refuse only
// in the Service range.
func TestOtherPorts(t *testing.T) { eachCheck(t, tables.CheckOtherPorts) }

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
		table := dataplane.Table{Node: tables.Node()}
		tables.Service(t, &table, "default/web", at.String(), dataplane.TCP, l.Pod(2))
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
		l.Node.Do(func() { converge(t, New(Config{Engine: e}), dataplane.Table{Node: tables.Node()}) })
		try(here, there, lab.OK)
		try(there, here, lab.OK)
		try(l.Outside, here, lab.Timeout)
		for _, tool := range []string{"iptables-", "ip6tables-"} {
			l.Node.Run(tool+e.String(), "-I", "FORWARD", "-i", lab.Uplink, "-j", "DROP")
		}
		try(there, here, lab.Timeout)
	})
}
