package nftables

import (
	"maps"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/tables"
)

// anyTable generates tables with all that our rules tell apart.
func anyTable(t *rapid.T) dataplane.Table {
	return tables.Any(t, tables.Bounds{Endpoints: 40, Affinity: true})
}

// TestFateOfAnyPacket proves that rules do what the table says, for packets to
// every frontend and beside it, from every class of sources: every key reaches
// its own frontend, a NodePort at every address of the node and at no other, and
// no other packet does.
func TestFateOfAnyPacket(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := anyTable(rt)
		w := newWalker(build(table, dataplane.IPv4))
		tables.AnyPackets(rt, table, func(p tables.Packet) {
			got, want := tables.FatesOf(w.walk(p.On(table.Node))), tables.Expect(table, p)
			if !maps.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-8 }) {
				rt.Fatalf("%s: %v, want %v", p, got, want)
			}
		})
	})
}
