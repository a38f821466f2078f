package iptables

import (
	"maps"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/tables"
)

// anyTable generates tables with all that our rules tell apart.
func anyTable(t *rapid.T) dataplane.Table {
	return tables.Any(t, tables.Bounds{Endpoints: 30, Affinity: true})
}

// TestFateOfAnyPacket proves that rules do what the table says, for packets to
// every frontend and beside it, from every class of sources: every key reaches
// its own frontend, a NodePort at every address of the node and at no other, and
// no other packet does. The connections whose mark says that FORWARD is to accept
// them are those to frontends outside of the Service ranges.
func TestFateOfAnyPacket(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := anyTable(rt)
		rules := Ruleset(table, dataplane.IPv4, true).Rules()
		tables.AnyPackets(rt, table, func(p tables.Packet) {
			tr := follow(rules, p.On(table.Node))
			got, want := tables.FatesOf(tr), tables.Expect(table, p)
			if !maps.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-8 }) {
				rt.Fatalf("%s: %v, want %v", p, got, want)
			}
			fe, ok := tables.Serves(table, p)
			if ours := ok && outer(fe, table.Node); marked(tr) != ours && (forwarded(got) || !ours) {
				rt.Fatalf("%s: %v, connection marked %t", p, got, !ours)
			}
		})
	})
}

// forwarded reports whether a packet reaches endpoints.
func forwarded(f tables.Fates) bool {
	for name := range f {
		return strings.HasPrefix(name, "forward ")
	}
	return false
}

// marked reports whether the mark of the connection says that it is ours.
func marked(tr dataplane.Trace) bool {
	for _, s := range tr.Steps {
		if strings.Contains(s.Rule, "-j CONNMARK --set-xmark") {
			return true
		}
	}
	return false
}
