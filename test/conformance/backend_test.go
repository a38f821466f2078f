package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// backend is one column of the matrix.
type backend struct {
	name  string
	needs []lab.Feature
	make  func(t testing.TB) dataplane.Backend
}

// program makes the kernel of the host match the table, and proves that a
// second plan has nothing left to do. It returns how many changes there were.
func program(h *lab.Host, b dataplane.Backend, table dataplane.Table) (changes int, err error) {
	h.Do(func() {
		changes, err = settle(func() (dataplane.Plan, error) { return b.Plan(context.Background(), table) })
	})
	return changes, err
}

// clear removes everything of ours from the kernel of the host.
func clear(h *lab.Host, b dataplane.Backend) (err error) {
	h.Do(func() {
		_, err = settle(func() (dataplane.Plan, error) { return b.Remove(context.Background()) })
	})
	return err
}

// settle applies a plan; the plan made afterwards must be empty.
func settle(plan func() (dataplane.Plan, error)) (changes int, err error) {
	first, err := plan()
	if err != nil {
		return 0, fmt.Errorf("plan: %w", err)
	}
	if err := first.Apply(context.Background()); err != nil {
		return 0, fmt.Errorf("apply: %w", err)
	}
	second, err := plan()
	if err != nil {
		return 0, fmt.Errorf("second plan: %w", err)
	}
	var left error
	for _, c := range second.Changes() {
		left = errors.Join(left, fmt.Errorf("second plan is not empty: %s %q", c, c.Lines))
	}
	return len(first.Changes()), left
}
