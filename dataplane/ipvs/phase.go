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
	out := make([]dataplane.Change, 0, len(p.steps))
	for _, s := range p.steps {
		out = append(out, s.change())
	}
	return out
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
	var left []error
	for rest := p.steps; len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("before %s: %w", rest[0].change().Object, err)
		}
		if r, ok := rest[0].action.(refuse); ok {
			left, rest = append(left, errors.New(r.reason)), rest[1:]
			continue
		}
		n, err := take(ctx, k, rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	if left = append(left, k.left...); len(left) > 0 {
		return notServed{errors.Join(left...)}
	}
	return nil
}

// simple reports whether the steps are but requests about servers and entries.
func (p *phase) simple() bool {
	return !slices.ContainsFunc(p.steps, func(s step) bool {
		switch s.action.(type) {
		case putServer, dropServer, putReal, dropReal, setEntry, refuse:
			return false
		}
		return true
	})
}

// take takes the first step, or as many as can be taken at once, and returns how
// many that were.
func take(ctx context.Context, k *kernel, s steps) (int, error) {
	first, ok := s[0].action.(request)
	if !ok {
		return 1, s[0].action.do(ctx, k)
	}
	var requests []request
	for _, next := range s {
		r, ok := next.action.(request)
		if !ok || r.lane() != first.lane() {
			break
		}
		requests = append(requests, r)
	}
	return len(requests), k.makeAll(ctx, requests)
}
