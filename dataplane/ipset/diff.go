package ipset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Plans is the way to the wanted sets: what has to be done before the rules
// change, and what after.
type Plans struct {
	Before, After dataplane.Plan
}

// Plan reads the sets of the network namespace of the calling thread and plans
// for those that owned knows to become the wanted ones. Sets whose names it does
// not know are left alone. A kernel without ipset holds no set.
func Plan(want []Set, owned func(name string, f dataplane.Family) bool) (Plans, error) {
	all, err := readHeaders()
	if err != nil {
		return Plans{}, err
	}
	have := slices.DeleteFunc(all, func(h held) bool { return !owned(strings.TrimSuffix(h.name, spareEnd), h.family) })
	return diff(want, have), nil
}

// Step plans the way from some sets to others by what is known of them, without
// a look at the kernel. Pure.
func Step(was, want []Set) Plans {
	have := make([]held, 0, len(was))
	for _, s := range was {
		have = append(have, s.asHeld())
	}
	return diff(want, have)
}

// diff compares wanted sets, whose names are distinct, with those of ours.
func diff(want []Set, have []held) Plans {
	var before, after plan
	at := make(map[string]held, len(have))
	for _, h := range have {
		at[h.name] = h
	}
	for _, s := range want {
		h, exists := at[s.Name]
		delete(at, s.Name)
		switch {
		case !exists:
			before = append(before, action{dataplane.Add, s, "set missing"})
		case !h.fits(s):
			before = append(before, action{dataplane.Update, s, fmt.Sprintf("type %s of %s, want %s of %s", h.typeName, h.family, setType, s.Family)})
		case h.seconds != s.seconds():
			before = append(before, action{dataplane.Update, s, fmt.Sprintf("timeout %d s, want %d s", h.seconds, s.seconds())})
		}
	}
	for _, h := range at {
		reason := "set not wanted"
		if strings.HasSuffix(h.name, spareEnd) {
			reason = "left by a pass that was cut short"
		}
		after = append(after, action{dataplane.Remove, Set{Name: h.name, Family: h.family}, reason})
	}
	slices.SortFunc(after, func(a, b action) int { return cmp.Compare(a.set.Name, b.set.Name) })
	return Plans{before, after}
}

// action is the change of one set.
type action struct {
	op     dataplane.Op
	set    Set
	reason string
}

// plan is some changes; it implements dataplane.Plan.
type plan []action

// Changes lists the changes.
func (p plan) Changes() []dataplane.Change {
	var out []dataplane.Change
	for _, a := range p {
		c := dataplane.Change{Op: a.op, Object: "ipset " + a.set.Name, For: a.set.For, Reason: a.reason}
		switch a.op {
		case dataplane.Remove:
			c.Lines = []string{"- " + a.set.Name}
		default:
			c.Lines = []string{"+ " + a.set.Line()}
		}
		out = append(out, c)
	}
	return out
}

// Apply makes the changes and stops at the first that fails.
func (p plan) Apply(ctx context.Context) error {
	if len(p) == 0 {
		return nil
	}
	k, err := open()
	if err != nil {
		return err
	}
	defer k.close()
	for _, a := range p {
		switch a.op {
		case dataplane.Add:
			err = k.create(a.set)
		case dataplane.Update:
			err = k.renew(a.set)
		default:
			err = k.destroy(ctx, a.set.Name)
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("ipset changes: %w", err)
		}
	}
	return nil
}

// Fingerprint returns a text that is another one when a set whose name owned knows
// has come, gone or got another type or timeout, in the network namespace of the
// calling thread. Members do not matter.
func Fingerprint(owned func(name string) bool) (string, error) {
	all, err := readHeaders()
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(h held) bool { return !owned(strings.TrimSuffix(h.name, spareEnd)) })
	slices.SortFunc(all, func(a, b held) int { return cmp.Compare(a.name, b.name) })
	return fmt.Sprint(all), nil
}
