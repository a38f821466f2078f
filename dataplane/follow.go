package dataplane

import (
	"context"
	"errors"
	"fmt"
)

// Delta is a change of a table: all that the Services it touches had before,
// and all that they have after. A Service is touched as a whole, so each side is
// a Table by itself: it has every frontend and every set of those Services, and
// nothing of others. A Service that is new is not in Before, one that is gone is
// not in After.
//
// Both have the same Node: facts about the node concern every frontend, and so
// a change of them takes a whole pass.
type Delta struct {
	Before, After Table
}

// Empty reports whether the delta changes nothing that it could name.
func (d Delta) Empty() bool {
	return len(d.Before.Frontends)+len(d.After.Frontends)+len(d.Before.Sets)+len(d.After.Sets) == 0
}

// View answers for a table that need not be made for it; a Table is one itself.
type View interface {
	// Frontend returns the frontend with that key.
	Frontend(Key) (Frontend, bool)
	// Set returns the endpoint set of that name.
	Set(name string) (EndpointSet, bool)
}

// Incremental is a Backend that can follow a table as it changes.
type Incremental interface {
	Backend
	// Follow returns a Follower with nothing in its memory.
	Follow() Follower
}

// Follower makes the kernel of one network namespace match a table that changes
// bit by bit, in time that goes with the change and not with the table.
//
// It remembers what the kernel held after the last plan of its own that was
// applied. The memory is a shortcut and never the truth: a plan that was not
// applied to its end, or was overtaken by another, ends it, and so does whoever
// asks for a whole pass, which reads the kernel again.
//
// A Follower belongs to one goroutine. At any time at most one of its plans is
// to be applied. One that has a Close, as of io.Closer, holds something of the
// kernel that it gives back.
type Follower interface {
	// Plan plans a whole pass, as Backend.Plan does, and remembers the table and
	// the kernel once the plan has been applied. A plan without changes need not
	// be applied.
	Plan(context.Context, Table) (Plan, error)
	// PlanChange plans the way from the table of the last plan to that table with
	// delta, and reads of the kernel at most what the delta names. It returns an
	// error that wraps ErrForgotten when the follower cannot vouch for its memory;
	// then Plan helps.
	PlanChange(context.Context, Delta) (Plan, error)
}

// Follow returns a Follower of a backend: its own where it has one, else one
// without any memory, for which every change takes a whole pass.
func Follow(b Backend) Follower {
	if i, ok := b.(Incremental); ok {
		return i.Follow()
	}
	return forgetful{b}
}

// forgetful follows a table by whole passes.
type forgetful struct{ Backend }

// PlanChange always asks for a whole pass.
func (forgetful) PlanChange(context.Context, Delta) (Plan, error) {
	return nil, fmt.Errorf("backend that plans whole tables only: %w", ErrForgotten)
}

// ErrForgotten is wrapped by errors that mean: a whole pass is needed first.
var ErrForgotten = errors.New("state of the kernel is not known: a whole pass is needed")
