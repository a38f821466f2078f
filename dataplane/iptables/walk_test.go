package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/tables"
)

// metIn counts the rules of table nat that lead to an endpoint, without the jump
// into ours.
func metIn(r xtables.Rules, p dataplane.Packet) int {
	w := xtables.Walker{Rules: r, Packet: p, Describe: describe}
	return w.Finish(w.Hook(xtables.NAT, "PREROUTING", w.Start())).Rules - 1
}

// TestWalk proves that a way is told hook by hook: which rules, what each
// decides, and what becomes of the packet.
func TestWalk(t *testing.T) {
	var table dataplane.Table
	table.Node = tables.Node()
	tables.ClusterIP(&table, "default/web:http", "10.96.0.10:80", dataplane.TCP, "10.244.0.5:8080", "10.244.1.6:8080")
	table.Sort()
	vip := netip.MustParseAddr("10.96.0.10")
	for _, tc := range []struct {
		name     string
		from     tables.Packet
		subjects string
		hooks    string
		ends     string
	}{
		{"from a Pod", tables.Packet{Src: netip.MustParseAddr("10.244.0.9"), Dst: vip, Protocol: dataplane.TCP, Port: 80, In: "br0"},
			"entry dispatch choice choice entry passage entry hairpin",
			"nat PREROUTING, filter FORWARD, nat POSTROUTING",
			"delivered 10.244.0.5:8080 0.50, delivered 10.244.1.6:8080 0.50"},
		{"from an endpoint", tables.Packet{Src: netip.MustParseAddr("10.244.0.5"), Dst: vip, Protocol: dataplane.TCP, Port: 80, In: "br0"},
			"entry dispatch choice choice entry passage entry hairpin hairpin",
			"nat PREROUTING, filter FORWARD, nat POSTROUTING",
			"delivered 10.244.0.5:8080 masquerade 0.50, delivered 10.244.1.6:8080 0.50"},
		{"from the node", tables.Packet{Dst: vip, Protocol: dataplane.TCP, Port: 80},
			"entry masquerading masquerading dispatch choice choice entry masquerading masquerading masquerading",
			"nat OUTPUT, nat POSTROUTING",
			"delivered 10.244.0.5:8080 masquerade 0.50, delivered 10.244.1.6:8080 masquerade 0.50"},
		{"another port", tables.Packet{Src: netip.MustParseAddr("10.244.0.9"), Dst: vip, Protocol: dataplane.TCP, Port: 81, In: "br0"},
			"entry unserved refusal refusal entry refusal",
			"nat PREROUTING, filter FORWARD", "refused 1.00"},
		{"another address", tables.Packet{Src: netip.MustParseAddr("10.244.0.9"), Dst: vip.Next(), Protocol: dataplane.UDP, Port: 81, In: "br0"},
			"entry unserved discard discard entry discard",
			"nat PREROUTING, filter FORWARD", "dropped 1.00"},
		{"elsewhere", tables.Packet{Src: netip.MustParseAddr("10.244.0.9"), Dst: netip.MustParseAddr("198.51.100.1"), Protocol: dataplane.TCP, Port: 80, In: "br0"},
			"entry entry entry", "nat PREROUTING, filter FORWARD, nat POSTROUTING", "passed 1.00"},
	} {
		tr, err := New(Config{}).Walk(table, tc.from.On(table.Node))
		if err != nil {
			t.Fatal(err)
		}
		subjects, hooks, ends := outline(tr)
		if subjects != tc.subjects || hooks != tc.hooks || ends != tc.ends {
			t.Errorf("%s:\n%s\n%s\n%s, want\n%s\n%s\n%s", tc.name, subjects, hooks, ends, tc.subjects, tc.hooks, tc.ends)
			for _, s := range tr.Steps {
				t.Logf("%s: %s (%s)", s.Hook, s.Rule, s.Why)
			}
		}
	}
}

// outline writes a trace in three lines.
func outline(tr dataplane.Trace) (subjects, hooks, ends string) {
	var s, h, e []string
	for _, step := range tr.Steps {
		s = append(s, step.Subject.String())
		if len(h) == 0 || h[len(h)-1] != step.Hook {
			h = append(h, step.Hook)
		}
	}
	for _, o := range tr.Outcomes {
		text := o.Fate.String()
		if o.Endpoint.IsValid() {
			text += " " + o.Endpoint.String()
		}
		if o.Masquerade {
			text += " masquerade"
		}
		e = append(e, fmt.Sprintf("%s %.2f", text, o.Share))
	}
	return strings.Join(s, " "), strings.Join(h, ", "), strings.Join(e, ", ")
}
