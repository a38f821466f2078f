package nftables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Config says how a Backend works. The zero Config is a good one.
type Config struct {
	// Families limits the work to these families; nil means both.
	Families []dataplane.Family
}

// Backend implements dataplane.Backend with a table of nftables a family.
type Backend struct {
	config Config

	mu sync.Mutex
	// usable are the families that the kernel can do, once it was asked; lacking
	// says why IPv6 is not among them.
	usable  []dataplane.Family
	lacking error
}

// New returns a backend. It does nothing yet: what the kernel can do is tried
// by the first call of Plan.
func New(c Config) *Backend {
	if c.Families == nil {
		c.Families = []dataplane.Family{dataplane.IPv4, dataplane.IPv6}
	}
	return &Backend{config: c}
}

// Render returns the tables as text for nft -f, those of both families in one.
// Loading it replaces what is there, in one transaction.
// Nothing of it depends on the kernel: rows are numbered as a first Apply does.
func (b *Backend) Render(t dataplane.Table) (string, error) {
	var out strings.Builder
	for _, f := range b.config.Families {
		if len(t.ForFamily(f).Frontends) == 0 {
			continue
		}
		if out.Len() == 0 {
			out.WriteString("# nft -f\n")
		}
		out.WriteString(build(t, f).replacement())
	}
	return out.String(), nil
}

// Plan reads our tables and returns what has to change. On a kernel that can do
// IPv4 alone the frontends of IPv6 are left out, and the plan's remarks say so.
func (b *Backend) Plan(ctx context.Context, t dataplane.Table) (dataplane.Plan, error) {
	p, err := b.plan(t)
	if err != nil {
		return nil, err
	}
	if err := p.survey(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// plan returns the plan for a table before the kernel was read.
func (b *Backend) plan(t dataplane.Table) (*plan, error) {
	if err := b.probe(); err != nil {
		return nil, err
	}
	p := &plan{remarks: b.leftOut(t)}
	for _, f := range b.usable {
		built := wholeBuilder(t, f)
		p.want = append(p.want, wanted{built.layout(), memory{facts: built.facts, count: built.count}})
	}
	return p, nil
}

// leftOut says what of a table the kernel cannot have.
func (b *Backend) leftOut(t dataplane.Table) []string {
	if b.lacking == nil {
		return nil
	}
	n := len(ofFamily(t, dataplane.IPv6).Frontends)
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("frontends of IPv6 are left out, %d: %v", n, b.lacking)}
}

// Remove plans to take away our tables. A kernel without nftables has none.
func (b *Backend) Remove(ctx context.Context) (dataplane.Plan, error) {
	p := &plan{}
	for _, f := range b.config.Families {
		p.want = append(p.want, wanted{layout: layout{family: f}})
	}
	err := p.survey(ctx)
	if errors.Is(err, dataplane.ErrUnsupported) {
		return &plan{}, nil
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Leftovers plans to take away what this backend made, while another one is in
// use: our tables are nobody else's.
func (b *Backend) Leftovers(ctx context.Context) (dataplane.Plan, error) { return b.Remove(ctx) }

// probe tries once what the kernel can do.
func (b *Backend) probe() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.usable != nil {
		return nil
	}
	return locked(func(s *socket) error {
		var usable []dataplane.Family
		for _, f := range b.config.Families {
			err := s.probe(f)
			switch {
			case err == nil:
				usable = append(usable, f)
			case f == dataplane.IPv6 && len(usable) > 0 && errors.Is(err, dataplane.ErrUnsupported):
				b.lacking = err
			default:
				return err
			}
		}
		b.usable = usable
		return nil
	})
}

// Probe reports what the kernel of the calling thread's namespace lacks: an
// error that wraps dataplane.ErrUnsupported, or one that says that it may not be
// asked. IPv4 is enough.
func Probe() error {
	return New(Config{}).probe()
}

// wanted is what the kernel is to hold of one family, and what a follower
// remembers of it.
type wanted struct {
	layout layout
	memory memory
}

// plan is what has to change in our tables.
type plan struct {
	want []wanted
	deltas
	remarks []string
}

// Remarks says what the plan leaves out.
func (p *plan) Remarks() []string { return p.remarks }

// survey reads the kernel and compares.
func (p *plan) survey(ctx context.Context) error {
	return locked(func(s *socket) (err error) {
		p.deltas, err = s.differences(ctx, p.want)
		return err
	})
}

// deltas are changes of the tables of all families that have some.
type deltas []delta

// differences reads the tables of all families and compares.
func (s *socket) differences(ctx context.Context, want []wanted) (deltas, error) {
	var out deltas
	for i := range want {
		have, err := s.read(ctx, want[i].layout.family)
		if err != nil {
			return nil, err
		}
		d, err := difference(want[i].layout, have)
		if err != nil {
			return nil, err
		}
		want[i].memory.rows = d.rows
		if !d.empty() {
			out = append(out, d)
		}
	}
	return out, nil
}

// tries is how often a plan is made again when somebody else has changed our
// table since it was made, or while it was applied.
const tries = 4

// Apply makes the changes. When the kernel is not any more as the plan has
// found it, the plan is made anew: so it may be applied twice.
func (p *plan) Apply(ctx context.Context) error {
	return locked(func(s *socket) error { return s.converge(ctx, p) })
}

// converge applies a plan until the kernel is as it wants it.
func (s *socket) converge(ctx context.Context, p *plan) (err error) {
	todo := p.deltas
	for range tries {
		if err = s.apply(ctx, todo); err == nil || !outdated(err) {
			return err
		}
		var failed error
		if todo, failed = s.differences(ctx, p.want); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return err
}

// outdated reports an error that says that something was there already, was
// not there any more, or was in use.
func outdated(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EBUSY)
}
