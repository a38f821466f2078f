package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// phase is a part of the plan. It implements dataplane.Plan.
type phase struct {
	steps steps
	hints hints
	// remarks are what it has to tell beside its changes.
	remarks []string
	// used are the sources that local routes have got when it was applied.
	used sources
}

// sources are the addresses that local clients of a VIP send from, by family.
type sources map[dataplane.Family]netip.Addr

// notServed is the error of a phase that was applied to its end, and tells what
// was left out on purpose.
type notServed struct{ error }

func (e notServed) Unwrap() error { return e.error }

// Remarks tells what is left as it is for the time being.
func (p *phase) Remarks() []string { return p.remarks }

// Empty reports whether there are no steps.
func (p *phase) Empty() bool { return len(p.steps) == 0 }

// Changes lists the changes of all steps.
func (p *phase) Changes() []dataplane.Change {
	out := make([]dataplane.Change, 0, p.steps.count())
	for s := range p.steps.all() {
		out = append(out, s.change())
	}
	return out
}

// Tally counts the changes, one of which is there at a time.
func (p *phase) Tally() (add, update, remove int) {
	return dataplane.TallyOf(func(yield func(dataplane.Change) bool) {
		for s := range p.steps.all() {
			if !yield(s.change()) {
				return
			}
		}
	})
}

// Apply takes the steps in order and stops at the first that the kernel refuses,
// because those behind it rely on it. What was left out on purpose is told at
// the end.
func (p *phase) Apply(ctx context.Context) error {
	if len(p.steps) == 0 {
		return nil
	}
	open := openKernel
	if p.simple() {
		open = openRequests
	}
	k, err := open()
	if err != nil {
		return err
	}
	defer k.close()
	k.hints = p.hints
	p.used = k.sources
	t := taker{kernel: k}
	for s := range p.steps.all() {
		if err := t.take(ctx, s); err != nil {
			return err
		}
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	if left := append(t.left, k.left...); len(left) > 0 {
		return notServed{errors.Join(left...)}
	}
	return nil
}

// simple reports whether the steps are but requests about servers and entries.
func (p *phase) simple() bool {
	return !slices.ContainsFunc(p.steps, func(r row) bool {
		switch r.at(0).action.(type) {
		case putServer, dropServer, putReal, dropReal, setEntry, refuse:
			return false
		}
		return true
	})
}

// taker takes steps one after the other.
type taker struct {
	kernel *kernel
	// first is the step of the first of the requests that wait to go together.
	first   step
	waiting []request
	// left tells of what was left out on purpose.
	left []error
}

// mostWaiting is how many requests wait at most: some calls to the kernel full.
const mostWaiting = 16 * batchRequests

// take takes a step. If it is a request it waits for those that can be made with it.
func (t *taker) take(ctx context.Context, s step) error {
	r, ok := s.action.(request)
	if ok && len(t.waiting) > 0 && len(t.waiting) < mostWaiting && r.lane() == t.waiting[0].lane() {
		t.waiting = append(t.waiting, r)
		return nil
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	if ok {
		t.first, t.waiting = s, append(t.waiting, r)
		return nil
	}
	if err := notOver(ctx, s); err != nil {
		return err
	}
	if r, ok := s.action.(refuse); ok {
		t.left = append(t.left, errors.New(r.reason))
		return nil
	}
	return s.action.do(ctx, t.kernel)
}

// flush makes the requests that wait.
func (t *taker) flush(ctx context.Context) error {
	if len(t.waiting) == 0 {
		return nil
	}
	requests := t.waiting
	t.waiting = t.waiting[:0]
	if err := notOver(ctx, t.first); err != nil {
		return err
	}
	return t.kernel.makeAll(ctx, requests)
}

// notOver is the error of a pass that ends before a step.
func notOver(ctx context.Context, s step) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("before %s: %w", s.change().Object, err)
	}
	return nil
}
