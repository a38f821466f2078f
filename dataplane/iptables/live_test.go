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

// TestWalkLive proves that a walk through the kernel's rules is the walk through
// those that were rendered, to every frontend there may be and beside it, and
// writes nothing.
func TestWalkLive(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		b := New(Config{Engine: e})
		table := tables.EveryShape()
		l.Node.Do(func() {
			converge(t, b, table)
			for i := 0; i < len(table.Frontends); i += 7 { // reading all rules takes its time
				fe := table.Frontends[i]
				p := tables.Packet{Src: netip.MustParseAddr("198.51.100.7"), Dst: fe.Addr, Protocol: fe.Protocol, Port: fe.Port, In: "eth0"}
				if fe.Addr.Is6() {
					p.Src = netip.MustParseAddr("2001:db8::7")
				}
				tables.CheckLive(t, b, table, p.On(table.Node))
				p.Port++
				p.In = ""
				tables.CheckLive(t, b, table, p.On(table.Node))
			}
			converge(t, b, table)
		})
	})
}

// TestWalkDrift proves that a live walk goes where the kernel's packets go after
// somebody has changed our rules.
func TestWalkDrift(t *testing.T) {
	const both = "delivered 10.244.0.11:8080 0.50, delivered 10.244.0.12:8080 0.50"
	key := tables.Small().Frontends[0].Key
	names := strings.NewReplacer("SVC ", frontendChain(key)+" ")
	for _, tc := range []struct {
		name, ends, note string
		damage           []string
	}{
		{name: "nothing", ends: both},
		{name: "chain flushed", damage: []string{"-t nat -F SVC"}, ends: "refused 1.00"},
		{name: "rule deleted", damage: []string{"-t nat -D SVC 1"}, ends: "delivered 10.244.0.12:8080 1.00"},
		{name: "rule added", damage: []string{"-t nat -I SVC -j RETURN"}, ends: "refused 1.00"},
		{name: "jump deleted", damage: []string{"-t nat -D PREROUTING 1"}, ends: "passed 1.00"},
		{name: "not understood", damage: []string{"-t nat -I SVC -m length --length 100 -j RETURN"}, ends: both, note: "--length"},
		{name: "policy", damage: []string{"-P FORWARD DROP"}, ends: both},
		{name: "policy, and nothing that lets pass", damage: []string{"-P FORWARD DROP", "-F TOY-FORWARD"}, ends: "dropped 1.00"},
		{name: "rules of others", damage: []string{"-I FORWARD -s 198.51.100.0/24 -j DROP"}, ends: both, note: "rules of others in filter FORWARD are not followed: 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, e xtables.Engine) {
				l := lab.New(t, lab.WithPods(0))
				b := New(Config{Engine: e})
				l.Node.Do(func() { converge(t, b, tables.Small()) })
				damage(l.Node, e, tc.damage, names)
				p := tables.Packet{Src: netip.MustParseAddr("10.244.0.99"), Dst: key.Addr, Protocol: dataplane.TCP, Port: 80, In: "br0"}
				l.Node.Do(func() {
					tr, err := b.WalkLive(t.Context(), p.On(tables.Small().Node))
					if err != nil {
						t.Fatal(err)
					}
					_, _, ends := outline(tr)
					if notes := strings.Join(tr.Notes, "\n"); ends != tc.ends || !strings.Contains(notes, tc.note) || tc.note == "" && notes != "" {
						t.Errorf("%s, notes %q; want %s, %q", ends, notes, tc.ends, tc.note)
					}
				})
			})
		})
	}
}
