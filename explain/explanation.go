package explain

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// Verdict is what a client sees.
type Verdict string

// The verdicts. The first three are what packets are given by rules.
const (
	// OK: an endpoint answers, if it listens.
	OK Verdict = "OK"
	// Refused: a reset for TCP, port unreachable for others, at once.
	Refused Verdict = "REFUSED"
	// Timeout: nobody answers.
	Timeout Verdict = "TIMEOUT"
	// Untouched: no rule of toyproxy's has a say; the node routes it like any other.
	Untouched Verdict = "UNTOUCHED"
	// Mixed: lots decide between several of these.
	Mixed Verdict = "MIXED"
	// None: the Service has no frontend, there is nothing to dial.
	None Verdict = "NONE"
	// Unreachable and Reset are what only a probe can find: a router says no, or
	// a connection is cut.
	Unreachable Verdict = "UNREACHABLE"
	Reset       Verdict = "RESET"
)

// Step is one step of the way, with the fields that are behind it.
type Step struct {
	dataplane.Step
	Causes []Cause
}

// Endpoint is one that the packet may reach.
type Endpoint struct {
	Addr netip.AddrPort
	// Share is the part of new connections that it gets, up to 1.
	Share float64
	// Masquerade: it sees an address of the node as the source.
	Masquerade bool
	// Pod is "namespace/name"; Node where it lives. Either may be empty.
	Pod, Node string
}

// Unused is an endpoint of the Service that the packet cannot reach, and why.
type Unused struct {
	Addr   netip.AddrPort
	Pod    string
	Reason string
}

// Explanation is the whole answer.
type Explanation struct {
	Target  Target
	From    From
	Class   dataplane.Source
	Verdict Verdict
	// Frontend is the one that is dialled; Service is empty when there is none.
	Frontend dataplane.Frontend
	Service  *corev1.Service
	// Because says why it is not delivered.
	Because []Cause
	Steps   []Step
	// Endpoints are those that it may reach, Unused the others of the Service.
	Endpoints []Endpoint
	Unused    []Unused
	// Affinity: a client that came before goes back to its endpoint.
	Affinity bool
	// Rules is the most rules that the packet is compared with.
	Rules int
	// Notes tell what else is worth knowing.
	Notes []string
	// Probe is what became of a packet that was really sent; empty when none was.
	Probe Verdict
	// Compared: the walk was one through the kernel's rules, and Differences are
	// those to the one through what was rendered.
	Compared    bool
	Differences []string
}

// Nothing is the explanation of a target that has no frontend to dial.
func (s State) Nothing(to Target, from From) Explanation {
	return Explanation{Target: to, From: from, Verdict: None, Service: to.Service, Because: s.becauseNone(to, dataplane.Packet{})}
}

// Explain joins the trace of a packet with the objects it follows from.
func (s State) Explain(to Target, from From, tr dataplane.Trace) Explanation {
	p := s.Packet(to, from)
	e := Explanation{Target: to, From: from, Class: s.Table.Node.Class(p), Verdict: verdictOf(tr),
		Because: s.because(to, p), Rules: tr.Rules, Notes: slices.Clone(tr.Notes)}
	fe, found := s.Table.Dialled(p)
	if found {
		e.Frontend = fe
		e.Service, _ = s.origin(fe)
		s.notes(&e)
	}
	set, _ := s.Table.Set(fe.Routes[e.Class].Set)
	e.Affinity = found && set.Affinity > 0
	e.Steps = s.steps(&e, tr, p)
	s.endpoints(&e, tr)
	return e
}

func verdictOf(tr dataplane.Trace) Verdict {
	fate, one := tr.Answer()
	if !one {
		return Mixed
	}
	return wordOf(fate)
}

func wordOf(f dataplane.Fate) Verdict {
	return map[dataplane.Fate]Verdict{dataplane.Passed: Untouched, dataplane.Delivered: OK, dataplane.Refused: Refused, dataplane.Dropped: Timeout}[f]
}

// notes adds what is worth knowing about a frontend beside the way itself.
func (s State) notes(e *Explanation) {
	for _, name := range s.others(e.Frontend) {
		e.Notes = append(e.Notes, fmt.Sprintf("Service %s claims %s too, and takes over when Service %s goes", name, e.Frontend.Key, serviceOf(e.Frontend)))
	}
	if ways := s.ways(e.Frontend); len(ways) > 0 {
		e.Notes = append(e.Notes, "also reached at "+joinAnd(ways))
	}
	if svc := e.Service; e.Target.Service != nil && svc == e.Target.Service && len(svc.Spec.Ports) > 1 {
		e.Notes = append(e.Notes, fmt.Sprintf("ports of Service %s: %s", serviceOf(e.Frontend), joinAnd(portsOf(svc))))
	}
}

// serviceOf is "namespace/name" of a frontend's Service.
func serviceOf(fe dataplane.Frontend) string {
	name, _, _ := strings.Cut(fe.Service, ":")
	return name
}

// endpoints fills in what may be reached, and what of the Service may not.
func (s State) endpoints(e *Explanation, tr dataplane.Trace) {
	var all []candidate
	if e.Service != nil {
		_, port := s.origin(e.Frontend)
		all = s.candidates(e.Service, port, dataplane.FamilyOf(e.Target.Key.Addr))
	}
	reached := map[netip.AddrPort]bool{}
	for _, o := range tr.Outcomes {
		if o.Fate != dataplane.Delivered {
			continue
		}
		ep := Endpoint{Addr: o.Endpoint, Share: o.Share, Masquerade: o.Masquerade}
		for _, c := range all {
			if c.addr == o.Endpoint {
				ep.Pod, ep.Node = c.pod, c.node
			}
		}
		reached[o.Endpoint] = true
		e.Endpoints = append(e.Endpoints, ep)
	}
	slices.SortFunc(e.Endpoints, func(a, b Endpoint) int { return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(b.Share, a.Share)) })
	for _, c := range all {
		if !reached[c.addr] {
			e.Unused = append(e.Unused, Unused{c.addr, c.pod, s.unusedWhy(e, c)})
		}
	}
}

// unusedWhy says why an endpoint of the Service does not get the packet.
func (s State) unusedWhy(e *Explanation, c candidate) string {
	field, value := policyField(e.Frontend.Kind, e.Service)
	switch {
	case c.terminating && c.serving:
		return "it terminates: used only when no other is left"
	case !c.ready:
		for _, p := range s.Objects.Pods {
			if why := notReady(p); p.Namespace+"/"+p.Name == c.pod && why != "" {
				return why
			}
		}
		return "it is not ready"
	case value == "Local" && c.node != s.Node && s.Node != "":
		return fmt.Sprintf("%s: Local, and it is on node %s", field, c.node)
	case len(c.zones) > 0:
		return "its hints give it to zone " + joinAnd(c.zones)
	case e.Verdict == OK:
		return "no rule leads to it"
	}
	return ""
}

// rewritten says whether endpoints see another source: all, none, or some.
func (e Explanation) rewritten() string {
	n := 0
	for _, ep := range e.Endpoints {
		if ep.Masquerade {
			n++
		}
	}
	switch n {
	case 0:
		return "its source is kept"
	case len(e.Endpoints):
		return "its source is rewritten to an address of the node"
	}
	return "its source is kept, but rewritten where it reaches itself"
}

func refOfPod(p *corev1.Pod) cluster.Ref { return cluster.MakeRef(cluster.Pod, p.Namespace, p.Name) }

// percent writes a share: "33.33%", "50%".
func percent(share float64) string {
	p := math.Round(share*1e4) / 100
	if p == 0 && share > 0 {
		return "<0.01%"
	}
	return fmt.Sprintf("%g%%", p)
}
