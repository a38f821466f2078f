package nftables

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestWalkLive proves that a walk through the kernel's rules is the walk through
// those that were rendered, to every frontend there may be and beside it, and
// writes nothing.
func TestWalkLive(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	b := New(Config{})
	table := tables.EveryShape()
	l.Node.Do(func() {
		tables.Converge(t, b, table)
		for _, fe := range table.Frontends {
			p := tables.Packet{Src: netip.MustParseAddr("198.51.100.7"), Dst: fe.Addr, Protocol: fe.Protocol, Port: fe.Port, In: "eth0"}
			if fe.Addr.Is6() {
				p.Src = netip.MustParseAddr("2001:db8::7")
			}
			for _, p.Port = range []uint16{fe.Port, fe.Port + 1} {
				tables.CheckLive(t, b, table, p.On(table.Node))
			}
		}
		tables.Converge(t, b, table)
	})
}

// TestWalkDrift proves that a live walk goes where the kernel's packets go after
// somebody has changed our table.
func TestWalkDrift(t *testing.T) {
	const row = "element ip toyproxy endpoints { 10.96.0.10 . tcp . 80 . 1 : 10.244.0.12 . 8080 }"
	for _, tc := range []struct{ name, damage, ends, step string }{
		{"nothing", "", "delivered 10.244.0.11:8080 0.50, delivered 10.244.0.12:8080 0.50", "map @endpoints"},
		{"element deleted", "delete element ip toyproxy svc2 { 10.96.0.10 . tcp . 80 }", "dropped 1.00", "drop"},
		{"row deleted", "delete " + row, "delivered 10.244.0.11:8080 0.50, dropped 0.50", "drop"},
		{"row leads elsewhere", "delete " + row + "; add " + strings.Replace(row, "0.12", "9.9", 1),
			"delivered 10.244.0.11:8080 0.50, delivered 10.244.9.9:8080 0.50", "10.244.9.9 . 8080"},
		{"set flushed", "flush set ip toyproxy frontends", "refused 1.00", "@cluster-ips goto refuse"},
		{"accepted first", "insert rule ip toyproxy services accept", "passed 1.00", "accept"},
		{"counted", "insert rule ip toyproxy prerouting counter jump services", "delivered 10.244.0.11:8080 0.50, delivered 10.244.0.12:8080 0.50", "(counter) jump services"},
		{"base chain deleted", "flush chain ip toyproxy prerouting; delete chain ip toyproxy prerouting", "passed 1.00", ""},
		{"table deleted", "delete table ip toyproxy", "passed 1.00", ""},
		{"dormant", "add table ip toyproxy { flags dormant; }", "passed 1.00", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, lab.WithPods(0))
			b := New(Config{})
			l.Node.Do(func() { tables.Converge(t, b, tables.Small()) })
			if tc.damage != "" {
				l.Node.Run("nft", tc.damage)
			}
			p := tables.Packet{Src: netip.MustParseAddr("10.244.0.99"), Dst: netip.MustParseAddr("10.96.0.10"), Protocol: dataplane.TCP, Port: 80, In: "br0"}
			l.Node.Do(func() {
				tr, err := b.WalkLive(t.Context(), p.On(tables.Small().Node))
				if err != nil {
					t.Fatal(err)
				}
				_, ends := outline(tr)
				last := ""
				for _, s := range tr.Steps {
					last += s.Rule + "\n"
				}
				if ends != tc.ends || !strings.Contains(last, tc.step) {
					t.Errorf("%s by\n%swant %s with %q", ends, last, tc.ends, tc.step)
				}
			})
		})
	}
}
