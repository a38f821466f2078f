package nftables

import (
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/tables"
)

// program makes the namespace match a table, for the checks that all backends
// share. It skips where the kernel has no nftables.
func program(t testing.TB, table dataplane.Table) {
	t.Helper()
	requireNftables(t)
	tables.Converge(t, New(Config{}), table)
}

// TestFates proves what becomes of packets from a Pod, the node and outside.
func TestFates(t *testing.T) { tables.CheckFates(t, program) }

// TestNoLeak proves that what is refused or dropped does not leave the node.
func TestNoLeak(t *testing.T) { tables.CheckNoLeak(t, program) }

// TestShares proves that endpoints get equal parts of the connections.
func TestShares(t *testing.T) { tables.CheckShares(t, program) }

// TestWeights proves that shares follow weights.
func TestWeights(t *testing.T) { tables.CheckWeights(t, program) }

// TestAffinity proves that a client stays with the endpoint it reached first.
func TestAffinity(t *testing.T) { tables.CheckAffinity(t, program) }

// TestAffinityEnds proves that the memory ends when its time is over.
func TestAffinityEnds(t *testing.T) { tables.CheckAffinityEnds(t, program) }

// TestAffinityLetsGo proves that a client leaves an endpoint that left the set,
// and that its memory is shared by two frontends of one Service.
func TestAffinityLetsGo(t *testing.T) { tables.CheckAffinityLetsGo(t, program) }

// TestOwnNamespace proves that a Pod's own namespace can be the node.
func TestOwnNamespace(t *testing.T) { tables.CheckOwnNamespace(t, program) }

// TestDoors proves that each source class meets its own fate at each door.
func TestDoors(t *testing.T) { tables.CheckDoors(t, program) }

// TestOtherPorts proves that a port that no frontend has is ours to refuse only
// in the Service range.
func TestOtherPorts(t *testing.T) { tables.CheckOtherPorts(t, program) }
