package tables

import (
	"context"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
)

// PlanOf makes a plan and ends the test if it cannot.
func PlanOf(t testing.TB, b dataplane.Backend, table dataplane.Table) dataplane.Plan {
	t.Helper()
	p, err := b.Plan(context.Background(), table)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	return p
}

// Converge applies the plan for a table and requires that nothing is left to do.
func Converge(t testing.TB, b dataplane.Backend, table dataplane.Table) {
	t.Helper()
	if err := PlanOf(t, b, table).Apply(context.Background()); err != nil {
		t.Fatalf("apply: %v", err)
	}
	for _, c := range PlanOf(t, b, table).Changes() {
		t.Errorf("still to do after apply: %s\n%q", c, c.Lines)
	}
}

// walker is a backend that follows packets through its rules.
type walker interface {
	Walk(dataplane.Table, dataplane.Packet) (dataplane.Trace, error)
	WalkLive(context.Context, dataplane.Packet) (dataplane.Trace, error)
}

// CheckLive requires that a walk through the kernel's rules is the walk through
// those that were rendered.
func CheckLive(t testing.TB, b walker, table dataplane.Table, p dataplane.Packet) {
	t.Helper()
	rendered, err := b.Walk(table, p)
	if err != nil {
		t.Fatal(err)
	}
	live, err := b.WalkLive(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rendered, live, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Fatalf("to %s, rendered and live:\n%s", p.Key, diff)
	}
}
