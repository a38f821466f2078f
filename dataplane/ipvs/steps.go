package ipvs

import (
	"context"
	"iter"

	"github.com/toyproxy/toyproxy/dataplane"
)

// step is one change of one kernel object: what is done, and what people are told.
// Steps are values until they are applied.
type step struct {
	action action
	tell   func() dataplane.Change
}

// change is what people are told.
func (s step) change() dataplane.Change { return s.tell() }

// action is one call, or a few, that change the kernel.
type action interface {
	do(context.Context, *kernel) error
}

// steps collects the changes of one phase, in rows. From nothing to a hundred thousand
// real servers they are more than all that they are made from, so only what makes them
// is kept.
type steps []row

// row is a row of steps of one sort, at least one, each made when it is asked for.
type row struct {
	n  int
	at func(i int) step
}

// add adds a step that tells a change.
func (s *steps) add(a action, c dataplane.Change) {
	s.addLazy(a, func() dataplane.Change { return c })
}

// addLazy adds a step whose change is made when it is asked for.
func (s *steps) addLazy(a action, tell func() dataplane.Change) {
	s.addRow(1, func(int) step { return step{a, tell} })
}

// addRow adds n steps, which may be none.
func (s *steps) addRow(n int, at func(i int) step) {
	if n > 0 {
		*s = append(*s, row{n, at})
	}
}

// addEach adds a step for each thing of a list.
func addEach[T any](s *steps, list []T, of func(T) step) {
	s.addRow(len(list), func(i int) step { return of(list[i]) })
}

// all makes the steps, one after the other.
func (s steps) all() iter.Seq[step] {
	return func(yield func(step) bool) {
		for _, r := range s {
			for i := range r.n {
				if !yield(r.at(i)) {
					return
				}
			}
		}
	}
}

// count returns how many steps there are.
func (s steps) count() (n int) {
	for _, r := range s {
		n += r.n
	}
	return n
}
