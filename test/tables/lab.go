package tables

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// Program makes the namespace of the calling thread match a table, by the
// backend under test, and ends the test if it cannot.
type Program func(t testing.TB, table dataplane.Table)

// Both returns an IPv4 address and port of the lab, and the IPv6 one that goes
// with it.
func Both(t testing.TB, at string) []netip.AddrPort {
	t.Helper()
	v4 := netip.MustParseAddrPort(at)
	v6, ok := lab.Twin(v4.Addr())
	if !ok {
		t.Fatalf("%s has no IPv6 address in the lab", at)
	}
	return []netip.AddrPort{v4, netip.AddrPortFrom(v6, v4.Port())}
}

// Service adds a ClusterIP in both families, with the given Pods as endpoints.
func Service(t testing.TB, table *dataplane.Table, name, at string, p dataplane.Protocol, pods ...*lab.Host) {
	t.Helper()
	for _, vip := range Both(t, at) {
		var eps []string
		for _, pod := range pods {
			eps = append(eps, netip.AddrPortFrom(pod.Addr(dataplane.FamilyOf(vip.Addr())), 8080).String())
		}
		ClusterIP(table, name, vip.String(), p, eps...)
	}
}

// Programmed builds a lab with three Pods that serve, whose node holds the table
// that fill makes.
func Programmed(t testing.TB, program Program, fill func(*lab.Lab, *dataplane.Table)) *lab.Lab {
	t.Helper()
	l := lab.New(t)
	for _, p := range l.Pods {
		p.Serve(dataplane.TCP, 8080)
		p.Serve(dataplane.UDP, 8080)
	}
	table := dataplane.Table{Node: Node()}
	fill(l, &table)
	l.Node.Do(func() { program(t, table) })
	return l
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
