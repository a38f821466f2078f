package iptables

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// eachEngine runs a test for every engine that the kernel has; it is skipped
// for one that it lacks.
func eachEngine(t *testing.T, test func(t *testing.T, e xtables.Engine)) {
	for _, e := range []xtables.Engine{xtables.NFT, xtables.Legacy} {
		t.Run(e.String(), func(t *testing.T) {
			lab.Require(t, lab.Namespaces)
			err := xtables.Tool{Engine: e, Family: dataplane.IPv4}.Probe(t.Context())
			if errors.Is(err, dataplane.ErrUnsupported) {
				lab.Skip(t, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			test(t, e)
		})
	}
}

// plan makes a plan and ends the test if it cannot.
func plan(t testing.TB, b *Backend, table dataplane.Table) dataplane.Plan {
	t.Helper()
	p, err := b.Plan(context.Background(), table)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	return p
}

// converge applies the plan for a table and requires that nothing is left to do.
func converge(t testing.TB, b *Backend, table dataplane.Table) {
	t.Helper()
	if err := plan(t, b, table).Apply(context.Background()); err != nil {
		t.Fatalf("apply: %v", err)
	}
	for _, c := range plan(t, b, table).Changes() {
		t.Errorf("still to do after apply: %s\n%q", c, c.Lines)
	}
}

// TestIdempotent proves that all shapes of rules are read back as they were
// written: the second plan is empty.
func TestIdempotent(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		b := New(Config{Engine: e})
		l.Node.Do(func() { converge(t, b, tables.EveryShape()) })
	})
}
