package iptables

import (
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// frontendChains are the chains of one frontend: by where a packet comes from,
// what becomes of it. A packet that enters never falls out.
func frontendChains(fe dataplane.Frontend, n dataplane.Node) []xtables.Chain {
	body := routeRules(fe.Routes, n.PodRanges)
	restricted := fe.Allowed != nil && !everything(fe.Allowed)
	main := xtables.Chain{Table: xtables.NAT, Name: frontendChain(fe.Key), For: fe.Service}
	if !restricted {
		main.Rules = commented(fe.Service, body)
		return []xtables.Chain{main}
	}
	inner := xtables.Chain{Table: xtables.NAT, Name: allowedChain(fe.Key), For: fe.Service, Rules: join(body)}
	guard := make([]target, 0, len(fe.Allowed)+1)
	for _, r := range fe.Allowed {
		guard = append(guard, target{from(r), goTo(inner.Name)})
	}
	main.Rules = commented(fe.Service, append(guard, target{"", jump(dropChain)}))
	return []xtables.Chain{inner, main}
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
type target struct{ match, action string }

// join writes targets as rules.
func join(ts []target) []string {
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = rule(t.match, t.action)
	}
	return out
}

// commented writes targets as rules, the first of which names the Service.
func commented(service string, ts []target) []string {
	out := join(ts)
	if service != "" && len(ts) > 0 {
		out[0] = rule(ts[0].match, xtables.Comment(service), ts[0].action)
	}
	return out
}

// routeRules says for each class of sources what happens. The classes are
// tested in the order pod, node, rest: an address of the node that lies in a Pod
// range counts as a Pod. Without a Pod range every source does.
func routeRules(routes [dataplane.Sources]dataplane.Route, pods []netip.Prefix) []target {
	pod, node, outside := routes[dataplane.FromPod], routes[dataplane.FromNode], routes[dataplane.FromOutside]
	if len(pods) == 0 || everything(pods) || pod == node && pod == outside {
		return fate("", pod)
	}
	if node == outside && len(pods) == 1 && sameButMasquerade(pod, node) {
		return masqueradeOne(pods[0], pod, node)
	}
	var out []target
	for _, r := range pods {
		out = append(out, fate(from(r), pod)...)
	}
	if node != outside {
		out = append(out, fate(fromNode, node)...)
	}
	return append(out, fate("", outside)...)
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
	return []target{{match, jump(markMasqChain)}, {"", goTo(setChain(rest.Set, ""))}}
}

// fate does what a route says to the packets that match.
func fate(match string, r dataplane.Route) []target {
	switch {
	case r.Verdict == dataplane.Refuse:
		return []target{{match, jump(refuseChain)}}
	case r.Verdict == dataplane.Drop:
		return []target{{match, jump(dropChain)}}
	case r.Masquerade:
		return []target{{match, jump(markMasqChain)}, {match, goTo(setChain(r.Set, ""))}}
	}
	return []target{{match, goTo(setChain(r.Set, ""))}}
}
