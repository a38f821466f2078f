package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
	"github.com/toyproxy/toyproxy/test/lab"
)

// TestConformance plays every scenario on every backend and ends with the
// matrix of both.
func TestConformance(t *testing.T) {
	scenarios, err := loadScenarios("testdata")
	if err != nil {
		t.Fatal(err)
	}
	m := &matrix{scenarios: scenarios}
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			missing := b.missing()
			if missing == nil {
				missing = lab.Namespaces.Missing()
			}
			for _, s := range scenarios {
				r := &run{scenario: s, backend: b}
				m.add(r)
				switch {
				case !b.here() && !s.sctp: // many kernels lack SCTP, the guest has it
				case missing != nil:
				default:
					t.Run(s.name, r.play)
				}
			}
			lab.Require(t, append(b.needs, lab.Namespaces)...)
		})
	}
	m.finish(t)
}

// run is one scenario on one backend: a cell of the matrix.
type run struct {
	scenario scenario
	backend  backend
	lab      *lab.Lab
	impl     dataplane.Backend
	flows    *conntrack.Cleaner
	// table is that of the step.
	table   dataplane.Table
	verdict verdict
	// tried are the flows that were sent, and whether each ended as expected.
	tried []triedFlow
}

// triedFlow is a flow that was sent: in which step, and what was wrong with it.
type triedFlow struct {
	Flow string `json:"flow"`
	Fail string `json:"fail,omitempty"`
}

// play builds a lab, takes the steps and cleans up.
func (r *run) play(t *testing.T) {
	defer func() { r.verdict = verdictOf(t) }() // also after a skip or a fatal error
	if r.scenario.sctp {
		lab.Require(t, lab.SCTP)
	}
	opts := []lab.Option{lab.WithPods(r.scenario.pods)}
	if r.scenario.second {
		opts = append(opts, lab.SecondNode())
	}
	r.lab = lab.New(t, opts...)
	r.equip(t)
	r.impl = r.backend.make(t)
	r.flows = conntrack.New(conntrack.Config{Virtual: slices.Contains(r.backend.needs, lab.IPVS), Journal: filepath.Join(t.TempDir(), "frontends")})
	before := dumpOf(r.lab.Node, everythingOf())
	p := newPipeline()
	for _, s := range r.scenario.steps {
		r.take(t, p, s)
	}
	if err := errors.Join(clear(r.lab.Node, r.impl), settled(r.lab.Node, r.impl.Remove)); err != nil {
		t.Errorf("remove: %v", err)
	}
	if left := differences(before, dumpOf(r.lab.Node, everythingOf())); left != "" {
		t.Errorf("after remove the kernel is not as before:\n%s", left)
	}
	if !r.scenario.oneFamily {
		t.Attr("exercised", r.backend.name+" IPv4 IPv6") // for tools/testsum
	}
}

// equip gives the hosts the addresses and servers of the scenario.
func (r *run) equip(t *testing.T) {
	t.Helper()
	for _, a := range r.scenario.addrs {
		h, ok := hostOf(r.lab, a.host)
		if !ok {
			t.Fatalf("no host %q in the lab", a.host)
		}
		for _, addr := range twins(a.addr.String()) {
			h.AddAddr(a.link, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	for _, s := range r.scenario.servers {
		h, ok := hostOf(r.lab, s.host)
		if !ok {
			t.Fatalf("no host %q in the lab", s.host)
		}
		h.Serve(s.protocol, s.port)
	}
}

// take programs the objects of a step and tries its flows.
func (r *run) take(t *testing.T, p *pipeline, s step) {
	t.Helper()
	table, err := p.step(r.scenario, s)
	if err != nil {
		t.Fatalf("step %s: %v", s.name, err)
	}
	r.table = table
	plan := func(ctx context.Context) (dataplane.Plan, error) { return r.impl.Plan(ctx, table) }
	if err := errors.Join(r.expect(), execute(r.lab.Node, plan), settled(r.lab.Node, plan), r.removeFlows()); err != nil {
		t.Errorf("step %s: %v", s.name, err)
	}
	for _, f := range s.flows {
		r.try(t, s, f)
		if twin, ok := f.twin(); ok && !r.scenario.oneFamily {
			r.try(t, s, twin)
		}
	}
	if diff := unlikeNew(t, r.impl, table, r.lab.Node); diff != "" {
		t.Errorf("step %s: the kernel differs from one programmed from nothing:\n%s", s.name, diff)
	}
}

// expect notes the table's destinations before its rules are written.
func (r *run) expect() (err error) {
	r.lab.Node.Do(func() { err = r.flows.Expect(context.Background(), r.table) })
	return err
}

// removeFlows removes the tracked flows that the table made stale, as a pass does:
// a client that happens on a port it has used in an earlier step is a new one.
func (r *run) removeFlows() error {
	if err := execute(r.lab.Node, func(ctx context.Context) (dataplane.Plan, error) { return r.flows.Plan(ctx, r.table) }); err != nil {
		return fmt.Errorf("stale flows: %w", err)
	}
	return nil
}

func (r *run) try(t *testing.T, s step, f flow) {
	t.Helper()
	tried := triedFlow{Flow: s.name + ": " + f.String()}
	if err := f.try(r.lab); err != nil {
		t.Errorf("step %s: %s: %v", s.name, f, err)
		tried.Fail = err.Error()
	} else if err := (explained{r.lab, r.impl, r.table, r.scenario.servers}).agrees(t, f, f.line == s.flows[0].line); err != nil {
		t.Errorf("step %s: %s happened, but %v", s.name, f.line, err)
	}
	r.tried = append(r.tried, tried)
}

// unlikeNew lists in what the kernel of a host differs from one that has only ever
// seen the table, but for what is kept for connections that end.
func unlikeNew(t *testing.T, b dataplane.Backend, table dataplane.Table, h *lab.Host) string {
	t.Helper()
	return differences(withoutMarks(fromScratch(t, b, table)), withoutMarks(dumpOf(h, rulesOf())))
}

// fromScratch is what a new kernel holds that has only ever seen this table.
func fromScratch(t *testing.T, b dataplane.Backend, table dataplane.Table) dump {
	t.Helper()
	fresh := lab.New(t, lab.WithPods(0)).Node
	if err := program(fresh, b, table); err != nil {
		t.Errorf("from scratch: %v", err)
	}
	return dumpOf(fresh, rulesOf())
}
