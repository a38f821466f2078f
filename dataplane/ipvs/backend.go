package ipvs

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/sysctl"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// Config is what a Backend is made from.
type Config struct {
	// Scheduler is the IPVS scheduler of virtual servers whose Service does not wish
	// for another one; empty means "rr".
	// Where the weights of a set differ, "wrr" takes the place of "rr", and "mh" where
	// it has affinity.
	Scheduler string
	// Families are those to program; nil means all that the node has.
	Families []dataplane.Family
	// StateDir is the folder of the node's state. The backend keeps in it what
	// kernel parameters were before; empty means "/run/toyproxy".
	StateDir string
	// Engine is the implementation of iptables; xtables.Auto detects it.
	Engine xtables.Engine
	// StrictARP: neighbours are told of no address but those of the link that they
	// ask on.
	StrictARP bool
	// Timeouts are those of the kernel for connections.
	Timeouts Timeouts
	// DrainLimit is how long a TCP endpoint that left its Service may keep the
	// connections that it has; zero means 15 minutes, less means not at all.
	DrainLimit time.Duration
	// Guarded reports whether rules of another backend, which are no iptables rules,
	// translate packets now. It is asked when this backend comes into use; nil means
	// that there is none.
	Guarded func(context.Context) (bool, error)
	// Clock tells the time; nil means time.Now. How long something drains is
	// measured by it.
	Clock func() time.Time
}

// Backend makes the kernel match a table by means of IPVS. It implements
// dataplane.Backend. Between calls it keeps nothing but that modules have been
// asked for, and the engine of iptables and the schedulers that it found. A Backend
// may be used from one goroutine at a time.
type Backend struct {
	config  Config
	modules sync.Once
	engine  xtables.Engine
	// present are the schedulers that the kernel has; nil if nobody asked yet.
	present map[string]bool
}

// New returns a backend. It touches nothing.
func New(c Config) *Backend {
	if c.Scheduler == "" {
		c.Scheduler = "rr"
	}
	if c.StateDir == "" {
		c.StateDir = "/run/toyproxy"
	}
	if c.DrainLimit == 0 {
		c.DrainLimit = drainLimit
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Backend{config: c, engine: c.Engine}
}

var _ dataplane.Backend = (*Backend)(nil)

// journal remembers the kernel parameters from before.
func (b *Backend) journal() string { return filepath.Join(b.config.StateDir, "sysctls-ipvs.json") }

// arpJournal does so for those of StrictARP, which may be wished for or not.
func (b *Backend) arpJournal() string { return filepath.Join(b.config.StateDir, "sysctls-arp.json") }

// timeoutJournal does so for timeouts.
func (b *Backend) timeoutJournal() string {
	return filepath.Join(b.config.StateDir, "ipvs-timeouts.json")
}

// schedulers returns those that the kernel has. It looks once.
func (b *Backend) schedulers() map[string]bool {
	if b.present == nil {
		b.present = presentSchedulers()
	}
	return b.present
}

// targets works out what each family that the node has is to hold: nothing, if
// it is not to be programmed, or switched off.
func (b *Backend) targets(table dataplane.Table, has []familyState) []target {
	var out []target
	for _, f := range has {
		part := table
		if !b.programs(f) {
			part = dataplane.Table{}
		}
		t := newTarget(part, f.family, b.config.Scheduler)
		t.drainLimit = b.config.DrainLimit
		out = append(out, t)
	}
	return out
}

// programs reports whether a family is to be programmed.
func (b *Backend) programs(f familyState) bool {
	return !f.off && (b.config.Families == nil || slices.Contains(b.config.Families, f.family))
}

// familyState is a family that a node has.
type familyState struct {
	family dataplane.Family
	// off: it is switched off, so that no address of it can be local.
	off bool
}

// Plan reads the kernel and returns what has to change for it to match the
// table. Without IPVS in the kernel the error is a *dataplane.Unsupported.
func (b *Backend) Plan(ctx context.Context, table dataplane.Table) (dataplane.Plan, error) {
	plan, _, err := b.plan(ctx, table)
	if err != nil {
		return nil, err
	}
	return plan, nil
}

// plan is Plan, and returns beside it what each family ought to hold, and held.
func (b *Backend) plan(ctx context.Context, table dataplane.Table) (dataplane.Plans, []*side, error) {
	b.modules.Do(func() { loadModules(ctx) })
	kernelVersion, err := kernelRelease()
	if err != nil {
		return nil, nil, err
	}
	has := families()
	want := b.targets(grant(table, b.schedulers), has)
	sides, err := b.read(ctx, has, want, sourceHints(table.Node))
	if err != nil {
		return nil, nil, err
	}
	if err := b.detect(ctx); err != nil {
		return nil, nil, err
	}
	rules, err := xtables.NewPlan(ctx, b.engine, rulesets(sides))
	if err != nil {
		return nil, nil, err
	}
	parameters, err := b.parameters(settings(kernelVersion), b.config.StrictARP, b.config.Timeouts)
	if err != nil {
		return nil, nil, err
	}
	first, last := compare(sides, sourceHints(table.Node))
	last.remarks = append(last.remarks, notGranted(table, b.schedulers)...)
	end := comeBack(sides)
	over, err := b.takesOver(ctx, sides, rules)
	if err != nil {
		return nil, nil, err
	}
	if over {
		return append(parameters, first, last, rules, end), sides, nil
	}
	return append(parameters, first, rules, last, end), sides, nil
}

// takesOver reports whether the rules of another backend stand, those of iptables,
// which ours replace, or of another kind, and none of ours: then the doors open
// first. Until the others go they guard the doors and translate each packet before it
// comes to one; the other way round connections would be refused in between.
func (b *Backend) takesOver(ctx context.Context, sides []*side, rules dataplane.Plan) (bool, error) {
	for _, s := range sides {
		if s.have.sets[services] != nil { // what our rules always name
			return false, nil
		}
	}
	if slices.ContainsFunc(rules.Changes(), func(c dataplane.Change) bool {
		return c.Op == dataplane.Remove && strings.Contains(c.Object, " chain TOY-SVC-")
	}) {
		return true, nil
	}
	if b.config.Guarded == nil {
		return false, nil
	}
	return b.config.Guarded(ctx)
}

// parameters plans the settings of the kernel: those that are wanted, and the way
// back from those that are not.
func (b *Backend) parameters(wanted []sysctl.Setting, strictARP bool, timeouts Timeouts) (dataplane.Plans, error) {
	basic, err := sysctl.Restore(b.journal())
	if wanted != nil {
		basic, err = sysctl.Plan(wanted, b.journal())
	}
	if err != nil {
		return nil, err
	}
	arp, err := sysctl.Restore(b.arpJournal())
	if strictARP {
		arp, err = sysctl.Plan(arpSettings(), b.arpJournal())
	}
	if err != nil {
		return nil, err
	}
	want, err := timeouts.seconds()
	if err != nil {
		return nil, err
	}
	past, err := readTimeouts(b.timeoutJournal())
	if err != nil || want == (seconds{}) && past == (timeoutRecord{}) {
		return dataplane.Plans{basic, arp}, err
	}
	k, err := openKernel()
	if err != nil {
		return nil, err
	}
	defer k.close()
	now, err := k.timeouts()
	if err != nil {
		return nil, err
	}
	return dataplane.Plans{basic, arp, planTimeouts(want, now, past, b.timeoutJournal())}, nil
}

// Remove plans to take away everything of ours and to put kernel parameters
// back. A kernel without IPVS holds nothing of ours.
func (b *Backend) Remove(ctx context.Context) (dataplane.Plan, error) {
	return b.remove(ctx, func() (dataplane.Plan, error) { return xtables.NewRemoval(ctx) })
}

// remove plans to take everything of ours away, with the rules as given.
func (b *Backend) remove(ctx context.Context, rules func() (dataplane.Plan, error)) (dataplane.Plan, error) {
	sides, err := b.readAll(ctx)
	if err != nil || sides == nil {
		return dataplane.Plans{}, err
	}
	between, err := rules()
	if err != nil {
		return nil, err
	}
	parameters, err := b.parameters(nil, false, Timeouts{})
	if err != nil {
		return nil, err
	}
	first, last := compare(sides, nil)
	return append(dataplane.Plans{first, between, last}, parameters...), nil
}

// detect finds the engine of iptables to use, once.
func (b *Backend) detect(ctx context.Context) error {
	if b.engine != xtables.Auto {
		return nil
	}
	found, err := xtables.Detect(ctx, xtables.Auto)
	b.engine = found.Engine
	return err
}

// side is what a family ought to hold, and what the kernel holds of it.
type side struct {
	familyState
	// table is what the table asks for; want leaves out what others have.
	table, want target
	have        observed
	// first and last are the steps from have to want, around the change of rules; end
	// is what comes when all else stands.
	first, last, end steps
}

// read reads what the kernel holds of each family.
func (b *Backend) read(ctx context.Context, has []familyState, want []target, hints hints) ([]*side, error) {
	k, err := openKernel()
	if err != nil {
		return nil, err
	}
	defer k.close()
	k.hints = hints
	var sides []*side
	for i, w := range want {
		have, err := k.read(ctx, w)
		if err != nil {
			return nil, err
		}
		have.now = b.config.Clock()
		sides = append(sides, &side{familyState: has[i], table: w, want: w.settle(have).keepMarks(have), have: have})
	}
	return sides, nil
}

// compare returns the phases around the change of rules.
func compare(sides []*side, hints hints) (first, last *phase) {
	first, last = &phase{hints: hints}, &phase{hints: hints}
	for _, s := range sides {
		s.first, s.last = before(s.want, s.have), after(s.want, s.have)
		first.steps = append(first.steps, s.first...)
		last.steps = append(last.steps, s.last...)
		last.remarks = append(last.remarks, slices.Concat(s.want.remarks, draining(s.want, s.have))...)
	}
	return first, last
}

func rulesets(sides []*side) []xtables.Ruleset {
	var out []xtables.Ruleset
	for _, s := range sides {
		out = append(out, s.want.rules)
	}
	return out
}

// hints are addresses to ask the kernel for a way to, by family.
type hints map[dataplane.Family][]netip.Addr

// sourceHints lists addresses whose way shows a source that local clients of a
// VIP can use. The first Pod range comes first: the node's address in it, that
// of the bridge, outlives changes of the uplink, and a route goes with its
// source address.
func sourceHints(node dataplane.Node) hints {
	h := hints{}
	add := func(a netip.Addr) {
		f := dataplane.FamilyOf(a)
		h[f] = append(h[f], a)
	}
	for _, p := range node.PodRanges {
		add(p.Masked().Addr().Next())
	}
	for _, a := range node.Addrs {
		add(a)
	}
	for _, p := range node.ServiceRanges {
		add(p.Masked().Addr())
	}
	return h
}
