package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// TestConformance plays every scenario on every backend and ends with the
// matrix of both.
func TestConformance(t *testing.T) {
	scenarios, err := loadScenarios("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var m matrix
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			lab.Require(t, append(b.needs, lab.Namespaces)...)
			for _, s := range scenarios {
				if !b.here() && !s.sctp { // many kernels lack SCTP, the guest has it
					continue
				}
				r := &run{scenario: s, backend: b}
				m.add(r)
				if s.doors && !b.doors {
					r.verdict = notServed
					t.Logf("%s: %s by %s yet", s.name, notServed, b.name)
					continue
				}
				t.Run(s.name, r.play)
			}
		})
	}
	fmt.Println(m.String(scenarios))
}

// run is one scenario on one backend: a cell of the matrix.
type run struct {
	scenario scenario
	backend  backend
	lab      *lab.Lab
	impl     dataplane.Backend
	flows    int
	verdict  string
}

// play builds a lab, takes the steps and cleans up.
func (r *run) play(t *testing.T) {
	defer func() { r.verdict = verdictOf(t) }()
	if r.scenario.sctp {
		lab.Require(t, lab.SCTP)
	}
	opts := []lab.Option{lab.WithPods(r.scenario.pods)}
	if r.scenario.second {
		opts = append(opts, lab.SecondNode())
	}
	r.lab = lab.New(t, opts...)
	r.serve(t)
	r.impl = r.backend.make(t)
	before := dumpOf(r.lab.Node, everythingOf())
	p := r.scenario.newPipeline()
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

func (r *run) serve(t *testing.T) {
	t.Helper()
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
	manifest, err := s.manifest(r.scenario.oneFamily)
	if err != nil {
		t.Fatalf("step %s: %v", s.name, err)
	}
	table, err := p.table(manifest)
	if err != nil {
		t.Fatalf("step %s: %v", s.name, err)
	}
	plan := func(ctx context.Context) (dataplane.Plan, error) { return r.impl.Plan(ctx, table) }
	if err := errors.Join(execute(r.lab.Node, plan), settled(r.lab.Node, plan)); err != nil {
		t.Errorf("step %s: %v", s.name, err)
	}
	for _, f := range s.flows {
		r.try(t, s, f)
		if twin, ok := f.twin(); ok && !r.scenario.oneFamily {
			r.try(t, s, twin)
		}
	}
	if diff := differences(fromScratch(t, r.impl, table), dumpOf(r.lab.Node, rulesOf())); diff != "" {
		t.Errorf("step %s: the kernel differs from one programmed from nothing:\n%s", s.name, diff)
	}
}

func (r *run) try(t *testing.T, s step, f flow) {
	t.Helper()
	r.flows++
	if err := f.try(r.lab); err != nil {
		t.Errorf("step %s: %s: %v", s.name, f, err)
	}
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

// notServed is the verdict on a scenario whose doors the backend does not have.
// It is no skip, which would say that the kernel lacks something.
const notServed = "not served"

func verdictOf(t *testing.T) string {
	switch {
	case t.Failed():
		return "FAIL"
	case t.Skipped():
		return "skip"
	}
	return "ok"
}

// matrix is the outcome of all runs.
type matrix struct{ runs []*run }

func (m *matrix) add(r *run) { m.runs = append(m.runs, r) }

// String is a table of scenarios and backends with the flows each tried, and a
// line that sums it up.
func (m *matrix) String(scenarios []scenario) string {
	var out strings.Builder
	flows, ok, open := 0, 0, 0
	fmt.Fprintf(&out, "%-24s", "scenario")
	for _, b := range backends() {
		fmt.Fprintf(&out, "%-18s", b.name)
	}
	for _, s := range scenarios {
		fmt.Fprintf(&out, "\n%-24s", s.name)
		for _, b := range backends() {
			cell := "-"
			for _, r := range m.runs {
				if r.scenario.name != s.name || r.backend.name != b.name {
					continue
				}
				cell = fmt.Sprintf("%s (%d flows)", r.verdict, r.flows)
				flows += r.flows
				switch r.verdict {
				case "ok":
					ok++
				case notServed:
					cell = notServed + " yet"
					open++
				}
			}
			fmt.Fprintf(&out, "%-18s", cell)
		}
		fmt.Fprintf(&out, "%s", s.shows)
	}
	fmt.Fprintf(&out, "\nconformance: %d scenarios x %d backends: %d of %d ok, %d not served yet, %d flows",
		len(scenarios), len(backends()), ok, len(m.runs)-open, open, flows)
	return out.String()
}
