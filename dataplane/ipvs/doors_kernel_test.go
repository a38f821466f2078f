package ipvs_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// check is a check that all backends share.
func check(t *testing.T, check func(*testing.T, tables.Program)) {
	lab.Require(t, lab.Namespaces, lab.IPVS, lab.IPSet)
	check(t, program)
}

// program makes the namespace match a table.
func program(t testing.TB, table dataplane.Table) {
	t.Helper()
	p, err := ipvs.New(ipvs.Config{StateDir: t.TempDir()}).Plan(context.Background(), table)
	if err == nil {
		err = p.Apply(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoLeak proves that what is refused or dropped does not leave the node.
func TestNoLeak(t *testing.T) { check(t, tables.CheckNoLeak) }

// TestDoors proves that each source class meets its own fate at each door.
func TestDoors(t *testing.T) { check(t, tables.CheckDoors) }

// TestOtherPorts proves that a port that no frontend has is ours to refuse only
// in the Service range: an external address may be another host's.
func TestOtherPorts(t *testing.T) { check(t, tables.CheckOtherPorts) }

// TestAffinityLetsGo proves that a client leaves an endpoint that left the set,
// and that two frontends of one Service agree on it.
func TestAffinityLetsGo(t *testing.T) { check(t, tables.CheckAffinityLetsGo) }

// An external address may be that of another host, and a node port a number that a
// daemon of the node uses: the Service has its port, and nothing else changes.
func TestDoorsTakeNothingElse(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	n.Pod(2).Serve(dataplane.TCP, 8080)
	n.Outside.Serve(dataplane.TCP, 22)
	n.Outside.Serve(dataplane.TCP, 80)
	n.Node.Serve(dataplane.TCP, 22)
	n.Node.Serve(dataplane.TCP, 30080)
	table := dataplane.Table{Node: tables.Node()}
	tables.Service(t, &table, "default/a", "10.96.0.10:80", dataplane.TCP, n.Pod(2))
	tables.Open(t, &table,
		tables.Door{Kind: dataplane.NodePort, At: "192.0.2.1:30080", Routes: tables.Alike("a+")},
		tables.Door{Kind: dataplane.ExternalIP, At: "192.0.2.10:80", Routes: tables.Alike("a+")})
	n.sync(table)
	for _, c := range []struct{ at, pod, node string }{
		{"192.0.2.10:80", "p2 snat", "p2 snat"}, {"192.0.2.10:22", "X own", "X own"},
		{"192.0.2.1:30080", "p2 snat", "p2 snat"}, {"192.0.2.1:22", "N own", "N own"},
	} {
		for _, at := range tables.Both(t, c.at) {
			tables.CheckOutcome(t, n.Pod(1), at, c.pod)
			tables.CheckOutcome(t, n.Node, at, c.node)
		}
	}
	for _, h := range []*lab.Host{n.Node, n.Outside} {
		for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
			if got := lab.Ping(n.Pod(1), h.Addr(f), time.Second); got != lab.OK {
				t.Errorf("ping of %s: %s", h.Addr(f), got)
			}
		}
	}
}

// everyDoor is a table with one of every kernel object.
func everyDoor(t testing.TB, l *lab.Lab) dataplane.Table {
	table := dataplane.Table{Node: tables.Node()}
	tables.Doors(t)(l, &table)
	return table
}

// What is lost of the way in, or of marks, is found, named and repaired.
func TestDriftOfDoors(t *testing.T) {
	n := newNode(t, ipvs.Config{})
	table := everyDoor(t, n.Lab)
	before := n.dump() + n.Node.Run("ip", "rule") + n.Node.Run("ip", "-6", "rule")
	n.sync(table)
	good := n.dump()
	marked := n.Node.Run("ipset", "list", "TOY-MARK-OUT-4")
	line := marked[strings.Index(marked, "203.0.113.9,tcp:80 skbmark "):]
	mark := strings.TrimSpace(strings.Split(line, " ")[2])
	mark, _, _ = strings.Cut(mark, "\n")
	for _, c := range []struct{ damage, want string }{
		{"ip rule del priority 84", "+ routing policy priority 84 fwmark 0x54000000/0xff000000 lookup 8484: rule missing"},
		{"ip route del local 203.0.113.8 dev lo table 8484", "+ inbound route 203.0.113.8 for default/a: address 203.0.113.8 missing in table 8484"},
		{"ip -6 route add local fd00:203:113::77 dev lo table 8484 proto 84", "- inbound route fd00:203:113::77: address not wanted"},
		{"ipset add -exist TOY-MARK-OUT-4 203.0.113.9,tcp:80 skbmark 0x54001234",
			"+ ipset TOY-MARK-OUT-4 entry 203.0.113.9,tcp:80 skbmark " + mark + " for default/a: entry missing"},
		{"ipset del TOY-ALLOW-4 203.0.113.8,tcp:80,192.0.2.0/28",
			"+ ipset TOY-ALLOW-4 entry 203.0.113.8,tcp:80,192.0.2.0/28 for default/a: entry missing"},
		{"ipset add TOY-ALLOW-6 fd00:203:113::8,tcp:80,fd00:9::/32",
			"- ipset TOY-ALLOW-6 entry fd00:203:113::8,tcp:80,fd00:9::/32: entry not wanted"},
		{"ipvsadm -D -f " + decimal(mark), "+ virtual server IPv4 mark " + mark + " for default/a: virtual server missing\n" +
			"+ real server 10.244.0.12:8080 of IPv4 mark " + mark + " for default/a: real server 10.244.0.12:8080 missing"},
		{n.iptables + " -t mangle -F TOY-MARK-IN", "~ " + n.iptables + " mangle chain TOY-MARK-IN: rule"},
	} {
		n.Node.Run(strings.Fields(c.damage)...)
		if got := strings.TrimSuffix(text(n.sync(table)), "\n"); !strings.HasPrefix(got, c.want) || strings.Count(got, "\n") != strings.Count(c.want, "\n") {
			t.Errorf("after %s the changes are\n%s\nwant\n%s", c.damage, got, c.want)
		}
	}
	if got := n.dump(); got != good {
		t.Errorf("after all repairs:\n%s\nwant\n%s", got, good)
	}
	n.remove()
	if got := n.dump() + n.Node.Run("ip", "rule") + n.Node.Run("ip", "-6", "rule"); got != before {
		t.Errorf("after removal:\n%s\nbefore:\n%s", got, before)
	}
}

func decimal(hex string) string {
	var n uint32
	fmt.Sscanf(hex, "0x%x", &n)
	return fmt.Sprint(n)
}

// What earlier versions left, an external address that is local as a whole, goes by
// the ordinary difference.
func TestOldLayout(t *testing.T) {
	n := newNode(t, ipvs.Config{})
	table := everyDoor(t, n.Lab)
	for _, c := range []string{
		"ipset create TOY-VIP-4 hash:ip", "ipset add TOY-VIP-4 203.0.113.7", "ipset create TOY-DROP-4 hash:ip,port",
		"ip route add local 203.0.113.7 dev lo table local proto 84", "ipvsadm -A -t 203.0.113.7:80 -s rr", "ipvsadm -A -t 203.0.113.7:9 -s rr",
	} {
		n.Node.Run(strings.Fields(c)...)
	}
	n.sync(table)
	if got := n.Node.Run("ip", "route", "show", "table", "local", "proto", "84") + n.Node.Run("ipvsadm", "-Sn"); contains(got, "local 203.0.113.7") || contains(got, "203.0.113.7:9 ") {
		t.Errorf("is left:\n%s", got)
	}
	tables.CheckOutcome(t, n.Node, netip.MustParseAddrPort("203.0.113.7:99"), "TIMEOUT")
}

// A Service may have a scheduler of its own, if the kernel has it, and 500 ranges.
func TestWishes(t *testing.T) {
	n := newNode(t, ipvs.Config{Scheduler: "wlc"}, lab.WithPods(2))
	b := newTable()
	for i, wish := range []string{"", "lc", "nosuch", "sh"} {
		b.add(fmt.Sprint("default/s", i), fmt.Sprint("10.96.0.1", i), dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(2))...)
		b.edit(i, func(_ *dataplane.Frontend, s *dataplane.EndpointSet) { s.Scheduler = wish })
	}
	b.edit(0, func(fe *dataplane.Frontend, _ *dataplane.EndpointSet) {
		for i := range 500 {
			fe.Allowed = append(fe.Allowed, netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i / 250), byte(i % 250), 0}), 16+i%17))
		}
	})
	n.sync(b.Table)
	got := n.Node.Run("ipvsadm", "-Sn")
	for i, want := range []string{"wlc", "lc", "wlc", "sh -b sh-fallback"} {
		if !contains(got, fmt.Sprintf("-A -t 10.96.0.1%d:80 -s %s\n", i, want)) {
			t.Errorf("Service %d has not %s:\n%s", i, want, got)
		}
	}
}
