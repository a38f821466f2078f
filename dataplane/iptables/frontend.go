package iptables

import (
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// frontendBody is what becomes of a packet to a frontend, by where it comes from.
// A packet that enters never falls out.
func frontendBody(fe dataplane.Frontend, n dataplane.Node) []target {
	marked := premarked(fe, n)
	if marked && fe.Kind != dataplane.NodePort && usual(fe.Routes) {
		return []target{{set: fe.Routes[dataplane.FromPod].Set}}
	}
	body := routeRules(fe.Routes, n)
	if outer(fe, n) && forwards(fe) {
		body = append([]target{{action: "-j CONNMARK --set-xmark " + marksOf(n).ours}}, body...)
	}
	if marked && keepsSource(fe.Routes) {
		body = append([]target{{action: setMark(marksOf(n).clear)}}, body...)
	}
	return body
}

// premarks are the rules that mark what comes from elsewhere than Pods to any
// address of the Service ranges: its source is to be rewritten. Nearly all
// frontends there want just that, so one rule does it for all of them. Where it
// takes more than one condition to tell Pods, there are none.
func premarks(n dataplane.Node) []string {
	if !premarking(n) {
		return nil
	}
	var out []string
	for _, r := range n.ServiceRanges {
		out = append(out, rule(notFrom(n.PodRanges[0]), to(r), jump(markMasqChain)))
	}
	return out
}

func premarking(n dataplane.Node) bool {
	return len(n.PodInterfaces) == 0 && len(n.PodRanges) == 1 && n.PodRanges[0].Bits() > 0
}

// premarked reports whether premarks has a rule for an address of a frontend.
func premarked(fe dataplane.Frontend, n dataplane.Node) bool {
	if fe.Kind != dataplane.NodePort {
		return premarking(n) && contains(n.ServiceRanges, fe.Addr)
	}
	return premarking(n) && slices.ContainsFunc(n.Addrs, func(a netip.Addr) bool { return contains(n.ServiceRanges, a) })
}

// usual reports whether routes are those that premarks is for: the same endpoints
// for everybody, and the source is rewritten of all but Pods.
func usual(routes [dataplane.Sources]dataplane.Route) bool {
	pod, node := routes[dataplane.FromPod], routes[dataplane.FromNode]
	return sameButMasquerade(pod, node) && !pod.Masquerade && node.Masquerade && node == routes[dataplane.FromOutside]
}

// keepsSource reports whether others than Pods keep their source.
func keepsSource(routes [dataplane.Sources]dataplane.Route) bool {
	return slices.ContainsFunc(routes[dataplane.FromNode:], func(r dataplane.Route) bool {
		return r.Verdict == dataplane.Forward && !r.Masquerade
	})
}

// frontendChains are the chains of one frontend with that body, behind which the
// choice of a simple set may stand.
func frontendChains(fe dataplane.Frontend, body []target, last *dataplane.EndpointSet) []xtables.Chain {
	restricted := fe.Allowed != nil && !everything(fe.Allowed)
	main := xtables.Chain{Table: xtables.NAT, Name: frontendChain(fe.Key), For: fe.Service}
	if !restricted {
		main.Make = func(b *xtables.Lines) { write(b, fe.Service, body, last) }
		return []xtables.Chain{main}
	}
	if len(fe.Allowed) == 0 {
		main.Rules = []string{target{action: jump(dropChain)}.text(xtables.Comment(fe.Service))}
		return []xtables.Chain{main}
	}
	inner := xtables.Chain{Table: xtables.NAT, Name: allowedChain(fe.Key), For: fe.Service,
		Make: func(b *xtables.Lines) { write(b, "", body, last) }}
	guard := make([]target, 0, len(fe.Allowed)+1)
	for _, r := range fe.Allowed {
		guard = append(guard, target{match: from(r), action: goTo(inner.Name)})
	}
	main.Make = func(b *xtables.Lines) { write(b, fe.Service, append(guard, target{action: jump(dropChain)}), nil) }
	return []xtables.Chain{inner, main}
}

// forwards reports whether a frontend sends anybody to an endpoint.
func forwards(fe dataplane.Frontend) bool {
	return slices.ContainsFunc(fe.Routes[:], func(r dataplane.Route) bool { return r.Verdict == dataplane.Forward })
}

// everything reports whether one of the ranges holds all addresses.
func everything(ranges []netip.Prefix) bool {
	for _, r := range ranges {
		if r.Bits() == 0 {
			return true
		}
	}
	return false
}

// target is a rule before it is text: what it matches and what it does.
type target struct {
	match, action string
	// set, instead of an action, is the endpoint set to choose from.
	set string
}

// text writes a target as a rule, with a match more if it is not empty.
func (t target) text(comment string) string {
	if t.set != "" {
		return rule(t.match, comment, goTo(setChain(t.set, "")))
	}
	return rule(t.match, comment, t.action)
}

// write writes targets as rules and puts the choice of a simple set behind, if
// there is one. The first of all names the Service, unless that is empty.
func write(b *xtables.Lines, service string, ts []target, last *dataplane.EndpointSet) {
	comment := ""
	if service != "" {
		comment = xtables.Comment(service)
	}
	for _, t := range ts {
		b.Add(t.text(comment))
		comment = ""
	}
	if last != nil {
		choice(b, *last, comment)
	}
}

// routeRules says for each class of sources what happens. The classes are
// tested in the order pod, node, rest: an address of the node that lies in a Pod
// range counts as a Pod. Where nothing tells Pods, they and what is outside have
// the same route.
func routeRules(routes [dataplane.Sources]dataplane.Route, n dataplane.Node) []target {
	pod, node, outside := routes[dataplane.FromPod], routes[dataplane.FromNode], routes[dataplane.FromOutside]
	pods := fromPods(n)
	switch {
	case everything(n.PodRanges) && len(n.PodInterfaces) == 0 || pod == node && pod == outside:
		return fate("", pod)
	case len(n.PodInterfaces) == 0 && len(n.PodRanges) == 1 && node == outside && sameButMasquerade(pod, node):
		return masqueradeOne(n.PodRanges[0], pod, node)
	}
	var out []target
	for _, match := range pods {
		out = append(out, fate(match, pod)...)
	}
	if node != outside {
		out = append(out, fate(fromNode, node)...)
	}
	return append(out, fate("", outside)...)
}

// fromPods are the matches of packets from Pods; none when nothing tells them.
// Links are not matched by exclusion: on the way out there is none, and
// kernels differ in what they say about that.
func fromPods(n dataplane.Node) []string {
	var out []string
	for _, name := range n.PodInterfaces {
		out = append(out, xtables.FromLink(name))
	}
	if out != nil {
		return out
	}
	for _, r := range n.PodRanges {
		out = append(out, from(r))
	}
	return out
}

// sameButMasquerade reports whether two routes choose from the same set and
// differ at most in the rewriting of the source.
func sameButMasquerade(a, b dataplane.Route) bool {
	return a.Verdict == dataplane.Forward && b.Verdict == dataplane.Forward && a.Set == b.Set
}

// masqueradeOne is the common shape of a ClusterIP: one rule marks the class
// whose source is rewritten, the next picks an endpoint for all.
func masqueradeOne(pods netip.Prefix, pod, rest dataplane.Route) []target {
	match := notFrom(pods)
	if pod.Masquerade {
		match = from(pods)
	}
	return []target{{match: match, action: jump(markMasqChain)}, {set: rest.Set}}
}

// fate does what a route says to the packets that match.
func fate(match string, r dataplane.Route) []target {
	switch {
	case r.Verdict == dataplane.Refuse:
		return []target{{match: match, action: jump(refuseChain)}}
	case r.Verdict == dataplane.Drop:
		return []target{{match: match, action: jump(dropChain)}}
	case r.Masquerade:
		return []target{{match: match, action: jump(markMasqChain)}, {match: match, set: r.Set}}
	}
	return []target{{match: match, set: r.Set}}
}
