package podnet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Request asks for the network of one Pod.
type Request struct {
	// Name is the name of the network namespace.
	Name string
	// For is whom it serves, for people: "default/web-1".
	For string
	// Hostname is the name of the Pod's addresses in its hosts file; several have
	// blanks between them.
	Hostname string
	// Aliases are further lines of the hosts file.
	Aliases []Alias
	DNS     DNS
	// Renew gives a network that exists already a new namespace and new
	// addresses. Whoever lives in the old one has to be gone before Apply.
	Renew bool
}

// Failure is a network that cannot be made, and why. It stops no other.
type Failure struct {
	Name string
	Err  error
}

// step is one change with the deed behind it. Deeds are idempotent.
type step struct {
	change dataplane.Change
	do     func(*kernel) error
}

// group is the steps for one network. After a step that fails the rest of the
// group is left out, and other groups go on.
type group struct {
	name  string
	steps []step
}

// Plan is changes to the networks of Pods; a dataplane.Plan.
type Plan struct {
	// Networks are the requested networks as they are after Apply, in the order
	// of the requests, without those that failed.
	Networks []Network
	// Failures are the requests that cannot be met.
	Failures []Failure
	// Notes tell of what was left as it is because it is somebody else's.
	Notes []string

	node *Node
	// before and after carry no name of a Pod: what all share.
	before, after []step
	groups        []group
	// sysctls comes after the record was written and before everything else.
	sysctls dataplane.Plan
	// edit records these networks before the deeds; forget afterwards, given the
	// groups that failed. Either may be nil.
	edit   func(networks []Network, rec *record) error
	forget func(rec *record, failed map[string]bool)
	// erase removes the record: nothing is left to remember.
	erase bool
	// unfinished are the networks that Apply could not complete.
	unfinished map[string]bool
}

// Remarks returns the notes.
func (p *Plan) Remarks() []string { return p.Notes }

// Unfinished tells, after an Apply that failed, which networks it began and did
// not complete. None means that it failed before it came to them.
func (p *Plan) Unfinished() map[string]bool { return p.unfinished }

// Changes lists the changes in the order in which they take effect.
func (p *Plan) Changes() []dataplane.Change {
	out := p.sysctls.Changes()
	for _, s := range p.steps() {
		out = append(out, s.change)
	}
	return out
}

func (p *Plan) steps() []step {
	out := slices.Clone(p.before)
	for _, g := range p.groups {
		out = append(out, g.steps...)
	}
	return append(out, p.after...)
}

// Split parts a plan in two, so that its user may do something between: first is
// to be applied before later, which holds the networks with these names.
func (p *Plan) Split(names map[string]bool) (first, later *Plan) {
	first, later = &Plan{}, &Plan{node: p.node, sysctls: dataplane.Plans{}, edit: p.edit}
	*first = *p
	first.groups, first.Networks = nil, nil
	for _, net := range p.Networks {
		part := first
		if names[net.Name] {
			part = later
		}
		part.Networks = append(part.Networks, net)
	}
	for _, g := range p.groups {
		part := first
		if names[g.name] {
			part = later
		}
		part.groups = append(part.groups, g)
	}
	return first, later
}

// Apply makes the changes. It fails before it touches anything when somebody
// else has meanwhile taken an address that the plan gives away.
func (p *Plan) Apply(ctx context.Context) error {
	if len(p.steps()) == 0 && len(p.sysctls.Changes()) == 0 && !p.erase {
		return nil
	}
	unlock, err := p.node.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	k, err := openKernel()
	if err != nil {
		return err
	}
	defer k.close()
	rec, err := p.record(k)
	if err != nil {
		return err
	}
	return p.apply(ctx, k, rec)
}

// record returns the record as it has to be while the deeds are done.
func (p *Plan) record(k *kernel) (record, error) {
	f, err := p.node.observeNode(k)
	if err != nil {
		return record{}, err
	}
	rec, err := p.node.current(f)
	if err != nil || p.edit == nil {
		return rec, err
	}
	if err := p.edit(p.Networks, &rec); err != nil || p.erase {
		return rec, err // what is to be erased needs no disk to have room
	}
	return rec, p.node.save(rec)
}

func (p *Plan) apply(ctx context.Context, k *kernel, rec record) error {
	if err := errors.Join(p.sysctls.Apply(ctx), run(ctx, k, p.before)); err != nil {
		return err
	}
	var errs []error
	failed := map[string]bool{}
	p.unfinished = failed
	for _, g := range p.groups {
		if err := run(ctx, k, g.steps); err != nil {
			failed[g.name] = true
			errs = append(errs, fmt.Errorf("network %s: %w", g.name, err))
		}
	}
	if p.forget != nil && (!p.erase || len(failed) > 0) {
		p.forget(&rec, failed)
		errs = append(errs, p.node.save(rec))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := run(ctx, k, p.after); err != nil || !p.erase {
		return err
	}
	return p.node.eraseRecord()
}

// run does the steps in order, up to the first that fails.
func run(ctx context.Context, k *kernel, steps []step) error {
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.do(k); err != nil {
			return err
		}
	}
	return nil
}
