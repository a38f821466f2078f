package conntrack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Config says how a Cleaner works.
type Config struct {
	// Virtual: the backend in use is IPVS. See Wanted.
	Virtual bool
	// RealServers returns who IPVS sends anything to, when another backend is in use.
	// Nil: whoever it has a connection to.
	RealServers func(context.Context) (map[netip.AddrPort]bool, error)
	// Journal is the file that remembers frontends outside of the Service
	// ranges. Without one the flows to such a frontend stay when it goes.
	Journal string
}

// Cleaner removes stale flows from the network namespace of the calling thread.
type Cleaner struct{ config Config }

// New returns a cleaner. It does nothing yet.
func New(c Config) *Cleaner { return &Cleaner{c} }

// errDamaged is wrapped when a journal cannot be understood.
var errDamaged = errors.New("damaged journal of frontends")

// Expect notes the destinations of a table, or of what a change adds to it, before
// its rules are written, so that their flows are known for ours however the pass
// ends. It writes only what is not noted yet.
func (c *Cleaner) Expect(ctx context.Context, t dataplane.Table) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("journal of frontends: %w", err)
	}
	brought := destinations(t)
	if len(brought) == 0 {
		return nil
	}
	noted, err := readJournal(c.config.Journal)
	if errors.Is(err, errDamaged) {
		return nil // Plan tells of it, and its Apply makes a new one
	}
	if err != nil {
		return err
	}
	want := tidy(append(slices.Clone(noted), brought...))
	if slices.Equal(noted, want) {
		return nil
	}
	return writeJournal(c.config.Journal, want)
}

// Plan reads the kernel's flows and returns which the table makes stale. It is
// right only once the rules of the table stand, and so is its Apply: until then
// packets make such flows again. A kernel that cannot list flows gives an error
// that wraps dataplane.ErrUnsupported.
func (c *Cleaner) Plan(ctx context.Context, t dataplane.Table) (dataplane.Plan, error) {
	p := &plan{journal: c.config.Journal, keep: destinations(t)}
	noted, err := readJournal(c.config.Journal)
	switch {
	case errors.Is(err, errDamaged):
		p.remarks = append(p.remarks, fmt.Sprintf("%v: it is made anew; flows to external addresses and node ports that have gone stay until they end", err))
	case err != nil:
		return nil, err
	}
	p.rewrite = err != nil || !slices.Equal(noted, p.keep)
	w := Wanted{Table: t, Virtual: c.config.Virtual, Former: noted}
	p.findings, err = c.find(ctx, w, families(w), needsLocal(t))
	if err != nil {
		return nil, err
	}
	return p, nil
}

// PlanChange is Plan after a change of a table whose flows were looked at before:
// it costs nothing for the frontends that the change does not name. Now is the
// table with the change. An error that wraps dataplane.ErrForgotten says that
// Plan is needed.
func (c *Cleaner) PlanChange(ctx context.Context, d dataplane.Delta, now dataplane.View) (dataplane.Plan, error) {
	p := &plan{journal: c.config.Journal}
	if spares(d) {
		return p, nil
	}
	noted, err := readJournal(c.config.Journal)
	if errors.Is(err, errDamaged) {
		return nil, fmt.Errorf("%w: %w", dataplane.ErrForgotten, err)
	}
	if err != nil {
		return nil, err
	}
	w := Wanted{Table: dataplane.Table{Node: d.After.Node}, View: now, Virtual: c.config.Virtual, Former: noted}
	p.keep = slices.DeleteFunc(slices.Clone(noted), w.leaves(destinations(d.Before)))
	p.rewrite = len(noted) != len(p.keep)
	changed := Wanted{Table: dataplane.Table{Frontends: slices.Concat(d.Before.Frontends, d.After.Frontends)}}
	p.findings, err = c.find(ctx, w, families(changed), true)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// leaves tells of destinations whether they are among these and no frontend is
// there any more.
func (w Wanted) leaves(these []dataplane.Key) func(dataplane.Key) bool {
	j, had := newJudge(w), set(these)
	return func(k dataplane.Key) bool {
		_, ok := j.frontend(k)
		return had[k] && !ok
	}
}

// find reads the kernel's flows of some families and returns the stale ones;
// local says that the node's addresses have to be known for that.
func (c *Cleaner) find(ctx context.Context, w Wanted, of []dataplane.Family, local bool) ([]Finding, error) {
	k, err := openKernel()
	if err != nil {
		return nil, err
	}
	defer k.close()
	var flows []Flow
	for _, f := range of {
		list, err := k.flows(ctx, f)
		if err != nil {
			return nil, err
		}
		flows = append(flows, list...)
	}
	if len(flows) > 0 && local {
		if w.Local, err = localAddrs(); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(flows, w.lost) { // unless IPVS carries them still
		if w.Carried, err = c.carried(ctx, func(now map[Carried]bool) bool {
			w.Carried = now
			return !slices.ContainsFunc(flows, w.lost)
		}); err != nil {
			return nil, err
		}
	}
	return Stale(w, flows), nil
}

// listTries is how often the list of connections is read before a flow counts as
// lost. The kernel hands it out page by page and counts its way to the next one: what
// other connections, of other namespaces too, end meanwhile makes it skip some.
const listTries = 5

// carried returns the flows that IPVS carries, once enough are known.
func (c *Cleaner) carried(ctx context.Context, enough func(map[Carried]bool) bool) (map[Carried]bool, error) {
	var servers map[netip.AddrPort]bool
	if c.config.RealServers != nil {
		var err error
		if servers, err = c.config.RealServers(ctx); err != nil {
			return nil, fmt.Errorf("real servers of IPVS: %w", err)
		}
	}
	known := map[Carried]bool{}
	for range listTries {
		list, err := readConnections()
		if err != nil {
			return nil, err
		}
		maps.Copy(known, parseCarried(list, servers))
		if enough(known) {
			break
		}
	}
	return known, nil
}

// families lists those in which a flow could be stale.
func families(w Wanted) []dataplane.Family {
	has := map[dataplane.Family]bool{}
	for _, fe := range w.Table.Frontends {
		has[dataplane.FamilyOf(fe.Addr)] = true
	}
	for _, r := range w.Table.Node.ServiceRanges {
		has[dataplane.FamilyOf(r.Addr())] = true
	}
	for _, k := range w.Former {
		has[dataplane.FamilyOf(k.Addr)] = true
	}
	return slices.Sorted(maps.Keys(has))
}

// plan implements dataplane.Plan.
type plan struct {
	findings []Finding
	remarks  []string
	journal  string
	// keep is what the journal is to hold once the findings are gone; rewrite
	// says that it holds something else.
	keep    []dataplane.Key
	rewrite bool
}

// Changes lists the flows to remove.
func (p *plan) Changes() []dataplane.Change {
	out := make([]dataplane.Change, len(p.findings))
	for i, f := range p.findings {
		out[i] = dataplane.Change{Op: dataplane.Remove, Object: "conntrack " + f.Flow.String(), For: f.Service,
			Reason: f.Reason, Lines: []string{"- " + f.Flow.line()}}
	}
	return out
}

// Remarks tells of a journal that was damaged.
func (p *plan) Remarks() []string { return p.remarks }

// Apply removes the flows. One that cannot be removed stops no other; the journal
// forgets only when all are gone.
func (p *plan) Apply(ctx context.Context) error {
	if err := p.remove(ctx); err != nil {
		return err
	}
	if !p.rewrite {
		return nil
	}
	return writeJournal(p.journal, p.keep)
}

func (p *plan) remove(ctx context.Context) error {
	if len(p.findings) == 0 {
		return nil
	}
	k, err := openKernel()
	if err != nil {
		return err
	}
	defer k.close()
	var first error
	failed := 0
	for _, f := range p.findings {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("removal of stale flows: %w", err)
		}
		if err := k.remove(f.Flow); err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	if first != nil {
		return fmt.Errorf("%d of %d stale flows stay, the first: %w", failed, len(p.findings), first)
	}
	return nil
}
