package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipset"
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
	// lacking says why clients are not remembered in sets; nil when they are or
	// when nobody has asked yet.
	lacking error
	asked   bool
	// try tells whether the kernel takes rules with sets.
	try func(context.Context, xtables.Tool) error
}

// New returns a backend. It does nothing yet: the engine is detected by the
// first call of Plan.
func New(c Config) *Backend {
	if c.Families == nil {
		c.Families = []dataplane.Family{dataplane.IPv4, dataplane.IPv6}
	}
	return &Backend{config: c, try: tryClientSets}
}

// Render returns the rules as text. Each family is a part of its own, because
// iptables-restore reads one family; a comment line before it names the tool.
// A family without frontends has no part, so that the text for a table of IPv4
// alone can be piped into iptables-restore as it is. With affinity there is one
// part more, before the others: the ipsets that the rules name.
func (b *Backend) Render(t dataplane.Table) (string, error) {
	var out strings.Builder
	if sets := b.clientSets(t, means{}, nil); len(sets) > 0 {
		out.WriteString("# ipset restore -exist\n")
		for _, s := range sets {
			out.WriteString(s.Line() + "\n")
		}
	}
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
// other engine, left by an earlier run, are planned to go. Its remarks say what
// was left out.
func (b *Backend) Plan(ctx context.Context, t dataplane.Table) (dataplane.Plan, error) {
	p, _, err := b.whole(ctx, t)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// whole plans a whole pass. With it comes what is to be remembered once the plan
// has been applied.
func (b *Backend) whole(ctx context.Context, t dataplane.Table) (dataplane.Plans, *memory, error) {
	found, err := b.Engine(ctx)
	if err != nil {
		return nil, nil, err
	}
	with, lacking, err := b.means(ctx, found, t.Sets)
	if err != nil {
		return nil, nil, err
	}
	m := &memory{engine: found.Engine, with: with}
	want := make([]xtables.Ruleset, 0, len(b.config.Families))
	for _, f := range b.config.Families {
		r, known := remember(t.ForFamily(f), f, with)
		want, m.families = append(want, r), append(m.families, known)
	}
	rules, err := xtables.NewPlan(ctx, found.Engine, want)
	if err != nil {
		return nil, nil, err
	}
	if lacking != nil {
		rules.Notes = append(rules.Notes, fmt.Sprintf("session affinity remembers about 100 clients an endpoint: %v", lacking))
	}
	m.leaveOut(rules.LeftOut)
	p, err := b.withSets(rules, b.clientSets(t, with, rules.LeftOut))
	return p, m, err
}

// withSets joins the plan of the rules with those of the sets that they name.
func (b *Backend) withSets(rules dataplane.Plan, want []ipset.Set) (dataplane.Plans, error) {
	sets, err := ipset.Plan(want, func(name string, f dataplane.Family) bool {
		return ownedSet(name) && slices.Contains(b.config.Families, f)
	})
	if err != nil {
		return nil, err
	}
	return dataplane.Plans{sets.Before, rules, sets.After}, nil
}

// orError returns plans, or none with an error.
func orError(p dataplane.Plans, err error) (dataplane.Plan, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// clientSets are the ipsets that the rules of a table name. Families that are
// left out have no rules.
func (b *Backend) clientSets(t dataplane.Table, with means, leftOut []dataplane.Family) []ipset.Set {
	if with.memory != inSets {
		return nil
	}
	return slices.DeleteFunc(clientSets(t.Sets), func(s ipset.Set) bool {
		return slices.Contains(leftOut, s.Family) || !slices.Contains(b.config.Families, s.Family)
	})
}

// Remove plans to take away every chain of ours, and the jumps to them, in both
// engines and families, and the sets that they name.
func (b *Backend) Remove(ctx context.Context) (dataplane.Plan, error) {
	rules, err := xtables.NewRemoval(ctx)
	if err != nil {
		return nil, err
	}
	return orError(b.withSets(rules, nil))
}

// Leftovers plans to remove what this backend made beside iptables rules: the
// sets of clients. It is for a node on which another backend is in use, whose
// rules have replaced ours; it is to be applied after them, because a set that a
// rule names cannot go.
func (b *Backend) Leftovers(context.Context) (dataplane.Plan, error) {
	return orError(b.withSets(dataplane.Plans(nil), nil))
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

// means returns what the rules for some sets of endpoints may use, and why that
// is less than everything.
func (b *Backend) means(ctx context.Context, found xtables.Found, sets []dataplane.EndpointSet) (with means, lacking, err error) {
	with.randomFully, with.liberal = found.RandomFully, xtables.Liberal()
	with.memory, lacking, err = b.memory(ctx, found.Engine, sets)
	return with, lacking, err
}

// memory returns where the clients of sets of endpoints are remembered, and why
// not where it is best. Whether the kernel has ipsets is tried once, when the
// first set asks for affinity.
func (b *Backend) memory(ctx context.Context, e xtables.Engine, sets []dataplane.EndpointSet) (m clientMemory, lacking, err error) {
	if !slices.ContainsFunc(sets, func(s dataplane.EndpointSet) bool { return s.Affinity > 0 }) {
		return inSets, nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.asked {
		b.lacking = b.try(ctx, xtables.Tool{Engine: e, Family: b.config.Families[0]})
		if b.lacking != nil && !errors.Is(b.lacking, dataplane.ErrUnsupported) {
			return inSets, nil, b.lacking
		}
		b.asked = true
	}
	if b.lacking != nil {
		m = inLists
	}
	return m, b.lacking, nil
}

// tryClientSets tries whether the kernel has sets and takes rules that name them.
func tryClientSets(ctx context.Context, t xtables.Tool) error {
	s := ipset.Set{Name: clientSetPrefix + "PROBE", Family: t.Family, Timeout: time.Second}
	return t.ProbeSets(ctx, s.Name, func() error { return ipset.Probe(s) })
}
