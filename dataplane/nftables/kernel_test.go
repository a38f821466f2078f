package nftables

import (
	"errors"
	"os"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// newLab returns a lab whose kernel has what we need.
func newLab(t testing.TB, opts ...lab.Option) *lab.Lab {
	t.Helper()
	l := lab.New(t, opts...)
	l.Node.Do(func() { requireNftables(t) })
	return l
}

// requireNftables skips the test on a kernel that has no nftables.
func requireNftables(t testing.TB) {
	t.Helper()
	if err := Probe(); errors.Is(err, dataplane.ErrUnsupported) {
		lab.Skip(t, err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// TestIdempotent proves that all shapes of rules are read back as they were
// written: the second plan is empty.
func TestIdempotent(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	b := New(Config{})
	l.Node.Do(func() { tables.Converge(t, b, tables.EveryShape()) })
}

// TestUnsupported proves that a kernel without nftables, or without its tables of
// family ip, is named as that, and holds nothing to remove. It is for such a
// kernel: elsewhere there is nothing to see.
func TestUnsupported(t *testing.T) {
	l := lab.New(t, lab.WithPods(0))
	var err error
	l.Node.Do(func() { _, err = New(Config{}).Plan(t.Context(), tables.Small()) })
	if err == nil {
		t.Skip("SKIP(kernel): this kernel has nftables, the test is for one without")
	}
	if !errors.Is(err, dataplane.ErrUnsupported) {
		t.Errorf("plan: %v, want an error that names what the kernel lacks", err)
	}
	t.Log(err)
	l.Node.Do(func() {
		if p, err := New(Config{}).Remove(t.Context()); err != nil || len(p.Changes()) > 0 {
			t.Errorf("removal: %v", err)
		}
	})
}
