package conformance

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// explained compares what is told of the way of packets with what happens to
// them: the walk through the rules that are rendered, and the walk through those
// that the kernel holds.
type explained struct {
	lab     *lab.Lab
	backend dataplane.Backend
	table   dataplane.Table
	// servers are what listens in the lab.
	servers []server
}

// packet is the first packet of a flow as the node meets it.
func (e explained) packet(f flow) dataplane.Packet {
	family := dataplane.FamilyOf(f.to.Addr())
	from, _ := hostOf(e.lab, f.from)
	p := dataplane.Packet{Key: dataplane.Key{Addr: f.to.Addr(), Protocol: f.protocol, Port: f.to.Port()}, Src: from.Addr(family), In: lab.Uplink}
	if f.source.IsValid() {
		p.Src = f.source
	}
	switch {
	case from == e.lab.Node:
		p.In = ""
	case slices.Contains(e.lab.Pods, from):
		p.In = lab.Bridge
	}
	for _, a := range []netip.Addr{p.Src, p.Addr, e.lab.Node.Addr(family)} {
		if e.lab.Node.Owns(a) {
			p.Own = append(p.Own, a)
		}
	}
	return p
}

// agrees returns how a flow that ended as it should differs from what is told of
// its way; by what the kernel holds only when asked, because reading that costs
// more than the flow.
func (e explained) agrees(t *testing.T, f flow, live bool) error {
	x, ok := e.backend.(dataplane.Explainer)
	if !ok {
		return nil
	}
	p := e.packet(f)
	rendered, err := x.Walk(e.table, p)
	if err != nil {
		return err
	}
	if err := e.compare(f, rendered); err != nil {
		return fmt.Errorf("the rendered rules are told to say otherwise: %w\n%s", err, steps(rendered))
	}
	if !live {
		return nil
	}
	var held dataplane.Trace
	e.lab.Node.Do(func() { held, err = x.WalkLive(t.Context(), p) })
	if err != nil {
		return err
	}
	if err := e.compare(f, held); err != nil {
		return fmt.Errorf("the kernel's rules are told to say otherwise: %w\n%s", err, steps(held))
	}
	return nil
}

// compare compares the outcome of a flow with that of a walk.
func (e explained) compare(f flow, tr dataplane.Trace) error {
	fate, one := tr.Answer()
	if one && (fate == dataplane.Passed && e.untouched(f) || fate == dataplane.Delivered && f.want == refused && !e.listens(f, tr)) {
		return nil
	}
	want := map[want]dataplane.Fate{served: dataplane.Delivered, sticky: dataplane.Delivered, refused: dataplane.Refused, dropped: dataplane.Dropped}[f.want]
	if !one || fate != want {
		return fmt.Errorf("%v, not %s", tr.Outcomes, want)
	}
	if fate != dataplane.Delivered {
		return nil
	}
	var told []string
	for _, o := range tr.Outcomes {
		told = append(told, e.name(o.Endpoint))
		// What the node sends has an address of the node, rewritten or not.
		if o.Masquerade != f.snat && f.from != e.lab.Node.Name {
			return fmt.Errorf("source rewritten at %s: %t, not %t", o.Endpoint, o.Masquerade, f.snat)
		}
	}
	for _, name := range f.endpoints {
		if !slices.Contains(told, name) {
			return fmt.Errorf("endpoints %v, without %s", told, name)
		}
	}
	// A walk remembers no client.
	if len(told) != len(f.endpoints) && f.want != sticky {
		return fmt.Errorf("endpoints %v, not %v", told, f.endpoints)
	}
	return nil
}

// untouched reports whether a flow ends as it would on a node without rules: the
// very host that was dialled answers, or says that nobody listens.
func (e explained) untouched(f flow) bool {
	itself := e.name(f.to)
	return f.want == refused && itself != f.to.String() || f.want == served && !f.snat && slices.Equal(f.endpoints, []string{itself})
}

// listens reports whether any endpoint of a way has a server: one without refuses
// by itself.
func (e explained) listens(f flow, tr dataplane.Trace) bool {
	return slices.ContainsFunc(tr.Outcomes, func(o dataplane.Outcome) bool {
		return slices.ContainsFunc(e.servers, func(s server) bool {
			return e.name(o.Endpoint) == fmt.Sprintf("%s:%d", s.host, s.port) && s.protocol == f.protocol
		})
	})
}

// name is an endpoint as scenarios write it: "p2:8080".
func (e explained) name(at netip.AddrPort) string {
	if at.Addr().IsLoopback() {
		return fmt.Sprintf("%s:%d", e.lab.Node.Name, at.Port())
	}
	for _, h := range append([]*lab.Host{e.lab.Node, e.lab.Outside, e.lab.Second, e.lab.Remote}, e.lab.Pods...) {
		if h != nil && h.Owns(at.Addr()) {
			return fmt.Sprintf("%s:%d", h.Name, at.Port())
		}
	}
	return at.String()
}

// steps writes a way for the reader of a failed test.
func steps(tr dataplane.Trace) string {
	var b strings.Builder
	for _, s := range tr.Steps {
		fmt.Fprintf(&b, "%s: %s: %s\n", s.Hook, s.Chain, s.Rule)
	}
	return b.String()
}

// told returns the shares of endpoints that are told of a frontend.
func (s *stage) told(table dataplane.Table, to netip.AddrPort) map[string]float64 {
	x, ok := s.backend.(dataplane.Explainer)
	if !ok {
		return nil
	}
	e := explained{lab: s.Lab, backend: s.backend, table: table}
	tr, err := x.Walk(table, e.packet(flow{from: s.Pod(1).Name, protocol: dataplane.TCP, to: to}))
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, o := range tr.Outcomes {
		out[e.name(o.Endpoint)] += o.Share
	}
	return out
}

// checkTold compares the shares that are told with those that n equal endpoints
// have, as the test of the connections does.
func checkTold(t *testing.T, told map[string]float64, got lab.Tally, n int) {
	t.Helper()
	if told == nil {
		return
	}
	for name := range got.Endpoints {
		if math.Abs(told[name]-1/float64(n)) > 1e-6 {
			t.Errorf("%s of %d endpoints is told to get %.6f", name, n, told[name])
		}
	}
}
