package agent

import (
	"context"
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
)

// A change of backend has three steps: backends that go make ready (Depart), the
// rules of the one that comes are written, and what the others made is removed
// (Leftovers), at once or when the connections that need it have ended.

// Leftover is a backend that is not in use. All backends that write iptables
// rules share their chains, so the one in use replaces the rules of the other;
// Leftovers plans to remove what else it made. What connections in progress still
// need may stay, and remarks tell of it: a later plan removes it.
type Leftover interface {
	Leftovers(context.Context) (dataplane.Plan, error)
}

// Departing is a Leftover that has something to do before the rules of the backend in
// use replace its own, so that connections in progress find their way meanwhile.
type Departing interface {
	Leftover
	// Depart plans it.
	Depart(context.Context) (dataplane.Plan, error)
}

// Depart does what backends that are not in use have to do before the rules of the one
// in use are written. Who has no rules of theirs to replace may leave it out.
func Depart(ctx context.Context, others []Leftover) error {
	for _, other := range others {
		d, ok := other.(Departing)
		if !ok {
			continue
		}
		plan, err := d.Depart(ctx)
		if err != nil {
			return fmt.Errorf("plan of the other backends' departure: %w", err)
		}
		if err := plan.Apply(ctx); err != nil {
			return fmt.Errorf("departure of other backends: %w", err)
		}
	}
	return nil
}

// leftovers plans to remove what backends that are not in use have left.
func (a *Agent) leftovers(ctx context.Context) (dataplane.Plans, error) {
	return Leftovers(ctx, a.Others)
}

// writeRules writes the rules, once other backends are ready for it.
func (p *Plan) writeRules(ctx context.Context) error {
	if !dataplane.Empty(p.Rules) {
		if err := Depart(ctx, p.agent.Others); err != nil {
			return err
		}
	}
	return p.Rules.Apply(ctx)
}

// removeLeftovers looks again at what other backends have left, now that new flows
// go by the rules in use: until a moment ago some came their way.
func (p *Plan) removeLeftovers(ctx context.Context) error {
	if len(p.agent.Others) == 0 {
		return nil
	}
	plan, err := p.agent.leftovers(ctx)
	if err != nil {
		return err
	}
	p.Leftovers = plan
	return plan.Apply(ctx)
}

// Leftovers plans to remove what backends that are not in use have left. The rules
// of the one in use have to stand when it is called and until it was applied. What
// connections in progress still need stays meanwhile, with a remark; so who goes on
// calls it again, with each look at the whole kernel.
func Leftovers(ctx context.Context, others []Leftover) (dataplane.Plans, error) {
	var out dataplane.Plans
	for _, other := range others {
		plan, err := other.Leftovers(ctx)
		if err != nil {
			return nil, fmt.Errorf("plan of the other backends' removal: %w", err)
		}
		out = append(out, plan)
	}
	return out, nil
}
