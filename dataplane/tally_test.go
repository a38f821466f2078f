package dataplane_test

import (
	"context"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

// listed is a plan that lists its changes.
type listed []dataplane.Change

func (l listed) Changes() []dataplane.Change { return l }
func (listed) Apply(context.Context) error   { return nil }

// counted is a plan that knows how many changes it has, and has none of them.
type counted struct{ listed }

func (counted) Tally() (add, update, remove int) { return 10, 20, 30 }

func TestTally(t *testing.T) {
	some := listed{{Op: dataplane.Add}, {Op: dataplane.Add}, {Op: dataplane.Update}, {Op: dataplane.Remove}}
	for name, c := range map[string]struct {
		plan dataplane.Plan
		want [3]int
	}{
		"listed":  {some, [3]int{2, 1, 1}},
		"counted": {counted{}, [3]int{10, 20, 30}},
		"several": {dataplane.Plans{some, dataplane.Plans{counted{}, some}}, [3]int{14, 22, 32}},
		"none":    {dataplane.Plans{}, [3]int{}},
	} {
		if add, update, remove := dataplane.Tally(c.plan); [3]int{add, update, remove} != c.want {
			t.Errorf("%s: +%d ~%d -%d, want %v", name, add, update, remove, c.want)
		}
	}
}
