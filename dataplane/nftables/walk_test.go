package nftables

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/tables"
)

// fataler is what testing.T and rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// TestWalk proves that a way is told hook by hook: which rules, what each
// decides, and what becomes of the packet.
func TestWalk(t *testing.T) {
	var table dataplane.Table
	table.Node = tables.Node()
	tables.ClusterIP(&table, "default/web:http", "10.96.0.10:80", dataplane.TCP, "10.244.0.5:8080", "10.244.1.6:8080")
	table.Sort()
	vip, pod := netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("10.244.0.9")
	for _, tc := range []struct {
		name     string
		from     tables.Packet
		subjects string
		ends     string
	}{
		{"from a Pod", tables.Packet{Src: pod, Dst: vip, Protocol: dataplane.TCP, Port: 80, In: "br0"},
			"entry dispatch class class class choice choice choice", "delivered 10.244.0.5:8080 0.50, delivered 10.244.1.6:8080 0.50"},
		{"from an endpoint", tables.Packet{Src: netip.MustParseAddr("10.244.0.5"), Dst: vip, Protocol: dataplane.TCP, Port: 80, In: "br0"},
			"entry dispatch class class class choice choice choice hairpin", "delivered 10.244.0.5:8080 masquerade 0.50, delivered 10.244.1.6:8080 0.50"},
		{"from the node", tables.Packet{Dst: vip, Protocol: dataplane.TCP, Port: 80},
			"entry dispatch class masquerading class class choice choice choice masquerading",
			"delivered 10.244.0.5:8080 masquerade 0.50, delivered 10.244.1.6:8080 masquerade 0.50"},
		{"another port", tables.Packet{Src: pod, Dst: vip, Protocol: dataplane.TCP, Port: 81, In: "br0"}, "entry unserved refusal", "refused 1.00"},
		{"another address", tables.Packet{Src: pod, Dst: vip.Next(), Protocol: dataplane.UDP, Port: 81, In: "br0"}, "entry unserved", "dropped 1.00"},
		{"elsewhere", tables.Packet{Src: pod, Dst: netip.MustParseAddr("198.51.100.1"), Protocol: dataplane.TCP, Port: 80, In: "br0"}, "entry", "passed 1.00"},
	} {
		tr, err := New(Config{}).Walk(table, tc.from.On(table.Node))
		if err != nil {
			t.Fatal(err)
		}
		subjects, ends := outline(tr)
		if subjects != tc.subjects || ends != tc.ends {
			t.Errorf("%s:\n%s\n%s, want\n%s\n%s", tc.name, subjects, ends, tc.subjects, tc.ends)
			for _, s := range tr.Steps {
				t.Logf("%s: %s: %s (%s)", s.Hook, s.Chain, s.Rule, s.Why)
			}
		}
	}
}

// outline writes a trace in two lines.
func outline(tr dataplane.Trace) (subjects, ends string) {
	var s, e []string
	for _, step := range tr.Steps {
		s = append(s, step.Subject.String())
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
	return strings.Join(s, " "), strings.Join(e, ", ")
}

// TestDecode proves that every rule of any table is read back from what the
// kernel is given as it was written.
func TestDecode(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for _, c := range build(anyTable(rt), dataplane.IPv4).chains {
			for _, r := range c.rules {
				checkDecode(rt, dataplane.IPv4, r)
			}
		}
	})
	for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
		for _, c := range build(tables.EveryShape(), f).chains {
			for _, r := range c.rules {
				checkDecode(t, f, r)
			}
		}
	}
}

func checkDecode(t fataler, f dataplane.Family, r rule) {
	t.Helper()
	encoded, err := encodeRule(f, r)
	if err != nil {
		t.Fatalf("%s: %v", r.text(f), err)
	}
	if got := decodeRule(f, strings.Join(encoded, "")); !reflect.DeepEqual(got, r) {
		t.Fatalf("%s is read as %s", r.text(f), got.text(f))
	}
}
