package iptables

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestLiberalTracking proves that there is no rule against stray segments where
// connection tracking is liberal (row E11), that none is needed there, and that
// one comes when that changes.
func TestLiberalTracking(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t)
		const liberal = "net.netfilter.nf_conntrack_tcp_be_liberal"
		l.Node.Sysctl(liberal, "1")
		table := dataplane.Table{Node: tables.Node()}
		l.Pod(2).Serve(dataplane.TCP, 8080)
		tables.Service(t, &table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pod(2))
		l.Node.Do(func() { converge(t, New(Config{Engine: e}), table) })
		rules := func() string { return l.Node.Run("iptables-"+e.String()+"-save", "-t", "filter") }
		if got := rules(); strings.Contains(got, "INVALID") {
			t.Errorf("rules of a liberal kernel\n%s", got)
		}
		wire := l.Pod(2).Wire("eth0")
		conn := lab.Open(l.Pod(1), netip.MustParseAddrPort("10.96.0.10:80"))
		wire.Stray(netip.AddrPortFrom(l.Pod(2).Addr(dataplane.IPv4), 8080), conn.Outcome.Peer)
		for range 5 {
			if err := conn.Echo(); err != nil {
				t.Fatalf("after a stray segment: %v", err)
			}
		}
		l.Node.Sysctl(liberal, "0")
		l.Node.Do(func() { converge(t, New(Config{Engine: e}), table) })
		if got := rules(); strings.Count(got, "--ctstate INVALID") != 2 {
			t.Errorf("rules of a strict kernel\n%s", got)
		}
	})
}
