package ipvs

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// Routes that make an address local are known by their mark, in either table and of
// either family; ranges, routes of other kinds and other tables are not looked at.
func TestLocalRoutes(t *testing.T) {
	lab.Require(t, lab.Namespaces)
	node := lab.New(t).Node
	for _, line := range []string{
		"add local 10.96.0.1 dev lo table local proto 84 src 127.0.0.1", "add local 10.96.0.2 dev lo table local",
		"add local 10.97.0.0/16 dev lo table local proto 84", "add blackhole 10.96.0.3 table local proto 84",
		"add local 10.96.0.4 dev lo table 8485 proto 84", "add local 203.0.113.7 dev lo table 8484 proto 84",
		"add local fd00::1 dev lo table local proto 84", "add local fd00::2 dev lo table 8484 proto 84 metric 7", "add local fd00::3 dev lo table local",
	} {
		node.Run("sh", "-c", "ip route "+line)
	}
	addr := netip.MustParseAddr
	node.Do(func() {
		k := &kernel{sockets: map[int]*socket{}}
		if err := k.open(); err != nil {
			t.Fatal(err)
		}
		defer k.close()
		for _, c := range []struct {
			family dataplane.Family
			table  uint32
			ours   map[netip.Addr]string
			others []string
		}{
			{dataplane.IPv4, unix.RT_TABLE_LOCAL, map[netip.Addr]string{addr("10.96.0.1"): "127.0.0.1 0 true"}, []string{"10.96.0.2", "127.0.0.1"}},
			{dataplane.IPv4, inboundTable, map[netip.Addr]string{addr("203.0.113.7"): "invalid IP 0 true"}, nil},
			{dataplane.IPv4, 9999, map[netip.Addr]string{}, nil},
			{dataplane.IPv6, unix.RT_TABLE_LOCAL, map[netip.Addr]string{addr("fd00::1"): "invalid IP 1024 true"}, []string{"fd00::3", "::1"}},
			{dataplane.IPv6, inboundTable, map[netip.Addr]string{addr("fd00::2"): "invalid IP 7 true"}, nil},
		} {
			ours, others, err := k.localRoutes(context.Background(), c.family, c.table)
			if err != nil {
				t.Fatal(err)
			}
			got := map[netip.Addr]string{}
			for a, r := range ours {
				got[a] = fmt.Sprint(r.source, r.priority, r.loopback)
			}
			if diff := cmp.Diff(c.ours, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("%s, table %d (-want +got):\n%s", c.family, c.table, diff)
			}
			for _, a := range c.others {
				if !others[addr(a)] {
					t.Errorf("%s, table %d: %s is not known: %v", c.family, c.table, a, others)
				}
			}
			if len(c.others) == 0 && len(others) > 0 {
				t.Errorf("%s, table %d: others %v", c.family, c.table, others)
			}
		}
	})
}
