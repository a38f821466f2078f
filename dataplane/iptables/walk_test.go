package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// packet is the first packet of a flow.
type packet struct {
	src, dst netip.Addr
	p        dataplane.Protocol
	port     uint16
	// in is the link it came in through; empty for what the node itself sends.
	in string
}

func (p packet) String() string {
	return fmt.Sprintf("%s by link %q to %s:%d/%s", p.src, p.in, p.dst, p.port, p.p)
}

// on is the packet as it meets a node.
func (p packet) on(n dataplane.Node) dataplane.Packet {
	return dataplane.Packet{Key: dataplane.Key{Addr: p.dst, Protocol: p.p, Port: p.port}, Src: p.src, In: p.in, Own: ownAddrs(n)}
}

// walker walks packets through rules and sums up what becomes of them.
type walker struct {
	rules xtables.Rules
	node  dataplane.Node
	// fates sums up the parts by what became of them: "forward 10.0.0.1:80",
	// "forward 10.0.0.1:80 masquerade", "refuse", "drop", "none"; with " ours" at
	// the end of a forward whose connection is marked.
	fates map[string]float64
	// met is the most rules of table nat that a part met up to its endpoint.
	met int
}

// walk sends a packet through all hooks.
func walk(r xtables.Ruleset, node dataplane.Node, p packet) walker {
	return walker{rules: r.Rules(), node: node}.walk(p)
}

func (w walker) walk(p packet) walker {
	w.fates, w.met = fatesOf(follow(w.rules, p.on(w.node))), metIn(w.rules, p.on(w.node))
	return w
}

// fatesOf sums up a trace.
func fatesOf(tr dataplane.Trace) map[string]float64 {
	suffix := ""
	if slices.ContainsFunc(tr.Steps, func(s dataplane.Step) bool { return strings.Contains(s.Rule, "-j CONNMARK --set-xmark") }) {
		suffix = " ours"
	}
	out := map[string]float64{}
	for _, o := range tr.Outcomes {
		name := map[dataplane.Fate]string{dataplane.Passed: "none", dataplane.Refused: "refuse", dataplane.Dropped: "drop"}[o.Fate]
		if o.Fate == dataplane.Delivered {
			name = "forward " + o.Endpoint.String()
			if o.Masquerade {
				name += " masquerade"
			}
			name += suffix
		}
		out[name] += o.Share
	}
	return out
}

// metIn counts the rules of table nat that lead to an endpoint, without the jump
// into ours.
func metIn(r xtables.Rules, p dataplane.Packet) int {
	w := xtables.Walker{Rules: r, Packet: p, Describe: describe}
	return w.Finish(w.Hook(xtables.NAT, "PREROUTING", w.Start())).Rules - 1
}

// ownAddrs are the addresses of the node, be they for NodePorts or not.
func ownAddrs(n dataplane.Node) []netip.Addr {
	return append(slices.Clone(n.Addrs), netip.MustParseAddr("10.244.0.1"))
}

// TestWalk proves that a way is told hook by hook: which rules, what each
// decides, and what becomes of the packet.
func TestWalk(t *testing.T) {
	var table dataplane.Table
	table.Node = testNode()
	clusterIP(&table, "default/web:http", "10.96.0.10:80", dataplane.TCP, "10.244.0.5:8080", "10.244.1.6:8080")
	table.Sort()
	vip := netip.MustParseAddr("10.96.0.10")
	for _, tc := range []struct {
		name     string
		from     packet
		subjects string
		hooks    string
		ends     string
	}{
		{"from a Pod", packet{src: netip.MustParseAddr("10.244.0.9"), dst: vip, p: dataplane.TCP, port: 80, in: "br0"},
			"entry dispatch choice choice entry passage entry hairpin",
			"nat PREROUTING, filter FORWARD, nat POSTROUTING",
			"delivered 10.244.0.5:8080 0.50, delivered 10.244.1.6:8080 0.50"},
		{"from an endpoint", packet{src: netip.MustParseAddr("10.244.0.5"), dst: vip, p: dataplane.TCP, port: 80, in: "br0"},
			"entry dispatch choice choice entry passage entry hairpin hairpin",
			"nat PREROUTING, filter FORWARD, nat POSTROUTING",
			"delivered 10.244.0.5:8080 masquerade 0.50, delivered 10.244.1.6:8080 0.50"},
		{"from the node", packet{dst: vip, p: dataplane.TCP, port: 80},
			"entry dispatch masquerading masquerading choice choice entry masquerading masquerading masquerading",
			"nat OUTPUT, nat POSTROUTING",
			"delivered 10.244.0.5:8080 masquerade 0.50, delivered 10.244.1.6:8080 masquerade 0.50"},
		{"another port", packet{src: netip.MustParseAddr("10.244.0.9"), dst: vip, p: dataplane.TCP, port: 81, in: "br0"},
			"entry unserved refusal refusal entry refusal",
			"nat PREROUTING, filter FORWARD", "refused 1.00"},
		{"another address", packet{src: netip.MustParseAddr("10.244.0.9"), dst: vip.Next(), p: dataplane.UDP, port: 81, in: "br0"},
			"entry unserved discard discard entry discard",
			"nat PREROUTING, filter FORWARD", "dropped 1.00"},
		{"elsewhere", packet{src: netip.MustParseAddr("10.244.0.9"), dst: netip.MustParseAddr("198.51.100.1"), p: dataplane.TCP, port: 80, in: "br0"},
			"entry entry entry", "nat PREROUTING, filter FORWARD, nat POSTROUTING", "passed 1.00"},
	} {
		tr, err := New(Config{}).Walk(table, tc.from.on(table.Node))
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
