package xtables

import (
	"context"
	"errors"
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Plan is the changes of all families and engines. It implements
// dataplane.Plan.
type Plan struct {
	steps []step
	// Notes say what was left out and why, for people: a family that is
	// switched off, say.
	Notes []string
	// LeftOut are the families that the kernel lacks and that were wanted.
	LeftOut []dataplane.Family
}

// step is the changes of one engine and family.
type step struct {
	tool  Tool
	want  Ruleset
	delta Delta
	// blind: the kernel was not looked at, and want is not known.
	blind bool
}

// NewPlan reads the kernel and returns what has to change for the engine to
// hold exactly the rulesets, one a family, and for the other engine to hold
// nothing of ours. The new rules come before the old ones of the other engine
// go, so that there is no moment without any. A family that the kernel lacks is
// left out with a note; IPv4 may not be lacking when something is wanted in it.
func NewPlan(ctx context.Context, engine Engine, want []Ruleset) (*Plan, error) {
	p := &Plan{}
	for _, w := range want {
		if err := p.add(ctx, Tool{Engine: engine, Family: w.Family}, w); err != nil {
			return nil, err
		}
	}
	for _, w := range want {
		if err := p.add(ctx, Tool{Engine: engine.Other(), Family: w.Family}, Ruleset{Family: w.Family}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Between returns what turns some chains of ours into others, in the order of
// the latter. Chains of neither are left as they are.
func Between(f dataplane.Family, before, after []Chain) Delta {
	have := State{Tables: map[Table]*TableState{}}
	for _, c := range before {
		if have.Tables[c.Table] == nil {
			have.Tables[c.Table] = &TableState{Chains: map[string][]string{}}
		}
		have.Tables[c.Table].Chains[c.Name] = c.rules()
	}
	d := Diff(Ruleset{Family: f, Chains: after}, have)
	d.Removal = false
	return d
}

// BlindPlan plans to make differences that were found without a look at the
// kernel. When the kernel refuses one, it is not made in parts: somebody has to
// look first.
func BlindPlan(e Engine, deltas ...Delta) *Plan {
	p := &Plan{}
	for _, d := range deltas {
		if !d.Empty() {
			p.steps = append(p.steps, step{tool: Tool{Engine: e, Family: d.Family}, delta: d, blind: true})
		}
	}
	return p
}

// NewRemoval plans to take away everything of ours, in both engines and
// families. A note names the engine whose program is not installed: its rules
// cannot be seen.
func NewRemoval(ctx context.Context) (*Plan, error) {
	p := &Plan{}
	for _, e := range []Engine{NFT, Legacy} {
		for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
			t := Tool{Engine: e, Family: f}
			if err := p.add(ctx, t, Ruleset{Family: f}); err != nil {
				return nil, err
			}
			var missing *noProgramError
			if _, err := t.path("save"); errors.As(err, &missing) {
				p.Notes = append(p.Notes, fmt.Sprintf("%s rules of engine %s cannot be seen, and stay if there are any: the program %s is not installed", f, e, missing.program))
			}
		}
	}
	return p, nil
}

// add appends the step for one engine and family, if there is any difference.
func (p *Plan) add(ctx context.Context, t Tool, want Ruleset) error {
	have, err := t.Save(ctx)
	if err == nil && t.Family == dataplane.IPv6 && !want.Empty() && !have.Ours() {
		// A kernel without IPv6 may show an empty state and refuse every rule.
		err = t.Probe(ctx)
	}
	if errors.Is(err, dataplane.ErrUnsupported) && (want.Empty() || t.Family == dataplane.IPv6) {
		if !want.Empty() {
			p.Notes = append(p.Notes, fmt.Sprintf("%s rules left out: %v", t.Family, err))
			p.LeftOut = append(p.LeftOut, t.Family)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if t.Engine == NFT {
		want = withMarkers(want, have)
	}
	if d := Diff(want, have); !d.Empty() {
		p.steps = append(p.steps, step{tool: t, want: want, delta: d})
	}
	return nil
}

// Changes lists the changes, those of a family together.
func (p *Plan) Changes() []dataplane.Change {
	var out []dataplane.Change
	for _, s := range p.steps {
		out = append(out, s.delta.Changes(s.tool.Engine)...)
	}
	return out
}

// Empty reports whether nothing has to change.
func (p *Plan) Empty() bool { return len(p.steps) == 0 }

// Deltas returns the difference of each engine and family that has one, for
// callers that want the exact input of iptables-restore.
func (p *Plan) Deltas() []Delta {
	var out []Delta
	for _, s := range p.steps {
		out = append(out, s.delta)
	}
	return out
}

// Apply makes the changes. When the kernel refuses a transaction, everything in
// it that the kernel does take is made nevertheless, and the error names each
// chain and Service that it does not. A failure of one family does not keep the
// other from being done.
func (p *Plan) Apply(ctx context.Context) error {
	var errs []error
	for _, s := range p.steps {
		if err := s.apply(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s step) apply(ctx context.Context) error {
	most := maxWeight(s.tool.Engine)
	if !s.blind {
		return apply(ctx, s.tool, s.want, s.delta, most)
	}
	for _, part := range parts(s.delta, most) {
		if err := restore(ctx, s.tool, part); err != nil {
			return err
		}
	}
	return nil
}

// Remarks returns the notes.
func (p *Plan) Remarks() []string { return p.Notes }
