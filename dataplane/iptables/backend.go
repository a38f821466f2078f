package iptables

import (
	"context"
	"strings"
	"sync"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// Config says how a Backend works. The zero Config is a good one.
type Config struct {
	// Engine overrides the detection of the engine.
	Engine xtables.Engine
	// Families limits the work to these families; nil means both.
	Families []dataplane.Family
}

// Backend implements dataplane.Backend with iptables rules.
type Backend struct {
	config Config

	mu    sync.Mutex
	found *xtables.Found
}

// New returns a backend. It does nothing yet: the engine is detected by the
// first call of Plan.
func New(c Config) *Backend {
	if c.Families == nil {
		c.Families = []dataplane.Family{dataplane.IPv4, dataplane.IPv6}
	}
	return &Backend{config: c}
}

// Render returns the rules as text. Each family is a part of its own, because
// iptables-restore reads one family; a comment line before it names the tool.
// A family without frontends has no part, so that the text for a table of IPv4
// alone can be piped into iptables-restore as it is.
func (b *Backend) Render(t dataplane.Table) (string, error) {
	var out strings.Builder
	for _, f := range b.config.Families {
		if len(t.ForFamily(f).Frontends) == 0 {
			continue
		}
		out.WriteString("# " + restoreTool(f) + " --noflush\n")
		out.WriteString(Ruleset(t, f, true).Text())
	}
	return out.String(), nil
}

// restoreTool is the program that loads the text of a family.
func restoreTool(f dataplane.Family) string {
	if f == dataplane.IPv6 {
		return "ip6tables-restore"
	}
	return "iptables-restore"
}

// Plan reads the kernel and returns what has to change. Rules of ours in the
// other engine, left by an earlier run, are planned to go. The plan is an
// *xtables.Plan; its Notes say what was left out.
func (b *Backend) Plan(ctx context.Context, t dataplane.Table) (dataplane.Plan, error) {
	found, err := b.Engine(ctx)
	if err != nil {
		return nil, err
	}
	want := make([]xtables.Ruleset, 0, len(b.config.Families))
	for _, f := range b.config.Families {
		want = append(want, Ruleset(t, f, found.RandomFully))
	}
	p, err := xtables.NewPlan(ctx, found.Engine, want)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Remove plans to take away every chain of ours, and the jumps to them, in both
// engines and families.
func (b *Backend) Remove(ctx context.Context) (dataplane.Plan, error) {
	p, err := xtables.NewRemoval(ctx)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Engine returns the engine that this backend works with and why. It is
// detected once: an engine that was chosen is not left because some other
// program begins to use the other.
func (b *Backend) Engine(ctx context.Context) (xtables.Found, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found == nil {
		found, err := xtables.Detect(ctx, b.config.Engine)
		if err != nil {
			return xtables.Found{}, err
		}
		b.found = &found
	}
	return *b.found, nil
}
