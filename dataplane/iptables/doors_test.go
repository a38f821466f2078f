package iptables

import (
	"net/netip"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestForwardDoors proves that every door serves on a host whose FORWARD policy
// is DROP, whether the source is rewritten or kept, in both directions; and that
// the translated connections of others stay subject to the policy.
func TestForwardDoors(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, tables.Doors(t))
		foreign := tables.Both(t, "203.0.113.30:80")
		for i, tool := range []string{"iptables-", "ip6tables-"} {
			tool += e.String()
			l.Node.Run(tool, "-P", "FORWARD", "DROP")
			to := netip.AddrPortFrom(l.Pod(2).Addr([]dataplane.Family{dataplane.IPv4, dataplane.IPv6}[i]), 8080)
			l.Node.Run(tool, "-t", "nat", "-A", "PREROUTING", "-d", foreign[i].Addr().String(), "-p", "tcp", "-j", "DNAT", "--to-destination", to.String())
		}
		// Pods of the lab are neighbours, and look for each other through FORWARD.
		l.Node.Run("ip6tables-"+e.String(), "-A", "FORWARD", "-p", "icmpv6", "-j", "ACCEPT")
		for _, tc := range []struct{ at, pod, outside string }{
			{"10.96.0.10:80", "p2 own", "p2 snat"},
			{"192.0.2.1:30080", "p2 snat", "p2 snat"},
			{"192.0.2.1:30081", "p3 own", "p2 own"},
			{"203.0.113.7:80", "p2 snat", "p2 snat"},
			{"203.0.113.8:80", "TIMEOUT", "p2 snat"},
			{"203.0.113.9:80", "p3 own", "p2 own"},
			{"203.0.113.30:80", "", "TIMEOUT"},
		} {
			for _, at := range tables.Both(t, tc.at) {
				tables.CheckOutcome(t, l.Pod(1), at, tc.pod)
				tables.CheckOutcome(t, l.Outside, at, tc.outside)
			}
		}
	})
}

// TestPodsByLink proves that the link a packet came in through says who is a Pod
// when the table has links, whatever the ranges; that another bit may carry the
// marks; and that Pods of the node reach each other past a FORWARD policy of DROP.
func TestPodsByLink(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		for _, link := range []string{lab.Bridge, "b+"} {
			l := programmed(t, e, func(l *lab.Lab, table *dataplane.Table) {
				tables.Doors(t)(l, table)
				table.Node.PodInterfaces = []string{link}
				table.Node.PodRanges = lab.ServiceRanges() // of no one
				table.Node.MasqueradeMark = 1 << 31
			})
			for _, tool := range []string{"iptables-", "ip6tables-"} {
				l.Node.Run(tool+e.String(), "-P", "FORWARD", "DROP")
			}
			for _, tc := range []struct{ at, pod, node, outside string }{
				{"10.96.0.10:80", "p2 own", "p2 snat", "p2 snat"},
				{"10.96.0.10:81", "REFUSED", "REFUSED", "REFUSED"},
				{"192.0.2.1:30081", "p3 own", "p3 snat", "p2 own"},
				{"192.0.2.1:30082", "p3 own", "p3 snat", "TIMEOUT"},
				{"10.244.0.12:8080", "p2 own", "p2 own", "TIMEOUT"},
			} {
				for _, at := range tables.Both(t, tc.at) {
					tables.CheckOutcome(t, l.Pod(1), at, tc.pod)
					tables.CheckOutcome(t, l.Node, at, tc.node)
					tables.CheckOutcome(t, l.Outside, at, tc.outside)
				}
			}
		}
	})
}

// TestLoopback proves that a NodePort answers on a loopback address when the node
// wishes so, and the kernel is told to route such: the backend does not tell it.
// Over IPv6 the kernel cannot be told.
func TestLoopback(t *testing.T) {
	at, at6 := netip.MustParseAddrPort("127.0.0.1:30080"), netip.MustParseAddrPort("[::1]:30080")
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, func(l *lab.Lab, table *dataplane.Table) {
			tables.Doors(t)(l, table)
			table.Node.Addrs = append([]netip.Addr{at.Addr(), at6.Addr()}, table.Node.Addrs...)
		})
		tables.CheckOutcome(t, l.Node, at, "TIMEOUT")
		l.Node.Sysctl("net.ipv4.conf.all.route_localnet", "1")
		tables.CheckOutcome(t, l.Node, at, "p2 snat")
		tables.CheckOutcome(t, l.Node, at6, "TIMEOUT")
	})
}
