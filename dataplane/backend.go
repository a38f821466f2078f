package dataplane

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Backend makes the kernel of one network namespace match a Table: the
// namespace of the calling thread. Implementations start no goroutine that
// touches the kernel, so a caller that has locked its thread in a namespace
// works in that one.
//
// A backend recognises its own kernel objects without any memory of having
// made them (by name, comment, route protocol), and plans to remove only
// those. It never decides policy.
type Backend interface {
	// Render returns the desired state as text that the kernel's tools load,
	// with a comment line before each part that names the tool. Pure.
	Render(Table) (string, error)
	// Plan reads the kernel and returns what has to change for it to match
	// the table. It writes nothing. With the kernel as the table wants it the
	// plan has no changes. A kernel that lacks what the backend needs gives an
	// error that wraps ErrUnsupported.
	Plan(context.Context, Table) (Plan, error)
	// Remove reads the kernel and plans to take away everything of ours. A
	// kernel that lacks the feature holds nothing of ours: an empty plan.
	Remove(context.Context) (Plan, error)
}

// Plan is the changes a backend would make: a value that can be printed, and
// applied.
type Plan interface {
	// Changes lists the changes in the order in which they take effect.
	Changes() []Change
	// Apply makes them. It is idempotent: creating what exists and deleting
	// what is gone succeed. After a failure the kernel is in a state from
	// which a new Plan leads to the table; nothing pending is forgotten,
	// because the next Plan reads the kernel again.
	Apply(context.Context) error
}

// Op is the kind of a Change.
type Op byte

// The operations, by the sign that plans print.
const (
	Add    Op = '+'
	Update Op = '~'
	Remove Op = '-'
)

// Change is one kernel object that a plan adds, updates or removes.
type Change struct {
	Op Op `json:"op"`
	// Object is the kernel object in the words of its own tool:
	// "iptables nat chain TOY-SVC-…", "virtual server tcp 10.96.0.10:80".
	Object string `json:"object"`
	// For is the Service ("namespace/name:port") or Pod the object serves;
	// empty for what all share.
	For string `json:"for,omitempty"`
	// Reason says why, for people: what is missing, different or unwanted.
	Reason string `json:"reason"`
	// Lines are the exact lines added ("+ …") and removed ("- …"), in the
	// syntax of the kernel's tool. May be empty.
	Lines []string `json:"lines,omitempty"`
}

// MarshalText gives the sign, so that JSON shows "+", "~" and "-".
func (o Op) MarshalText() ([]byte, error) { return []byte{byte(o)}, nil }

// String returns the change on one line: "+ object (for): reason".
func (c Change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%c %s", c.Op, c.Object)
	if c.For != "" {
		fmt.Fprintf(&b, " for %s", c.For)
	}
	if c.Reason != "" {
		fmt.Fprintf(&b, ": %s", c.Reason)
	}
	return b.String()
}

// Plans joins plans into one that applies them in order and stops at the first
// that fails.
type Plans []Plan

// Changes lists the changes of all plans in order.
func (ps Plans) Changes() []Change {
	var out []Change
	for _, p := range ps {
		out = append(out, p.Changes()...)
	}
	return out
}

// Apply applies the plans in order.
func (ps Plans) Apply(ctx context.Context) error {
	for _, p := range ps {
		if err := p.Apply(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Empty reports whether a plan has no changes. A plan may know without listing
// them, by a method of that name.
func Empty(p Plan) bool {
	if known, ok := p.(interface{ Empty() bool }); ok {
		return known.Empty()
	}
	return len(p.Changes()) == 0
}

// Empty reports whether no plan has any changes.
func (ps Plans) Empty() bool {
	return !slices.ContainsFunc(ps, func(p Plan) bool { return !Empty(p) })
}

// Tally counts the changes of a plan. A plan of very many may count them without
// having all of them at once, by a method of that name.
func Tally(p Plan) (add, update, remove int) {
	if known, ok := p.(interface {
		Tally() (add, update, remove int)
	}); ok {
		return known.Tally()
	}
	return TallyOf(slices.Values(p.Changes()))
}

// Tally counts the changes of all plans.
func (ps Plans) Tally() (add, update, remove int) {
	for _, p := range ps {
		a, u, r := Tally(p)
		add, update, remove = add+a, update+u, remove+r
	}
	return add, update, remove
}

// TallyOf counts changes, one by one.
func TallyOf(changes iter.Seq[Change]) (add, update, remove int) {
	for c := range changes {
		switch c.Op {
		case Add:
			add++
		case Update:
			update++
		case Remove:
			remove++
		}
	}
	return add, update, remove
}

// Remarker is a Plan that has something to tell people beside its changes: what
// it leaves as it is, and why.
type Remarker interface {
	Remarks() []string
}

// Remarks returns what a plan has to tell; nil when it has nothing.
func Remarks(p Plan) []string {
	if r, ok := p.(Remarker); ok {
		return r.Remarks()
	}
	return nil
}

// Remarks returns what the plans have to tell, in order.
func (ps Plans) Remarks() []string {
	var out []string
	for _, p := range ps {
		out = append(out, Remarks(p)...)
	}
	return out
}

// ErrUnsupported is wrapped by errors that mean: this kernel lacks a feature.
// It is the only reason for a test to skip.
var ErrUnsupported = errors.New("not supported by this kernel")

// Unsupported reports that the kernel lacks a feature, and how to mend it.
type Unsupported struct {
	// Feature is what is missing: "IPVS".
	Feature string
	// Missing names the kernel part: "generic netlink family IPVS (module ip_vs)".
	Missing string
	// Mend says what the reader can do.
	Mend string
}

// Error states what is missing, and how to mend it.
func (e *Unsupported) Error() string {
	return fmt.Sprintf("this kernel has no %s: %s is missing; %s", e.Feature, e.Missing, e.Mend)
}

// Unwrap makes errors.Is(err, ErrUnsupported) hold.
func (e *Unsupported) Unwrap() error { return ErrUnsupported }
