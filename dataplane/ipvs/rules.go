package ipvs

import (
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// Chains of ours. Their number and length do not depend on how many Services
// there are: what differs stands in the sets.
const (
	chainServices    = xtables.Prefix + "SERVICES"
	chainLocal       = xtables.Prefix + "LOCAL"
	chainPostrouting = xtables.Prefix + "POSTROUTING"
	chainFilter      = xtables.Prefix + "FILTER"
	chainUnused      = xtables.Prefix + "UNUSED"
	chainForward     = xtables.Prefix + "FORWARD"
)

const (
	// mark says: rewrite the source of this packet when it leaves. The mask is
	// that of all marks of this program; other bits belong to others.
	mark      = "0x4000/0xc000"
	setMark   = "-j MARK --set-xmark " + mark
	newFlow   = "-m conntrack --ctstate NEW "
	knownFlow = "-m conntrack --ctstate RELATED,ESTABLISHED "
	masq      = "-j MASQUERADE --random-fully"
)

// unreachable is how a family spells the refusal of anything but TCP.
func unreachable(f dataplane.Family) string {
	if f == dataplane.IPv6 {
		return "icmp6-port-unreachable"
	}
	return "icmp-port-unreachable"
}

// ruleset returns all rules of a family. docs/packet-path.md draws them.
func ruleset(f dataplane.Family, node dataplane.Node) xtables.Ruleset {
	return xtables.Ruleset{
		Family: f,
		Chains: []xtables.Chain{
			filterChain(f), unusedChain(node), forwardChain(node), servicesChain(f, node), localChain(f, node), postroutingChain(f),
		},
		Jumps: jumps(),
	}
}

// jumps lead from the built-in chains into ours.
func jumps() []xtables.Jump {
	at := func(t xtables.Table, base, match, chain, why string) xtables.Jump {
		return xtables.Jump{Table: t, Base: base, Rule: match + xtables.JumpComment(why) + " -j " + chain}
	}
	// Behind whatever an administrator has to say.
	forward := at(xtables.Filter, "FORWARD", "", chainForward, "forward what Services and Pods send")
	forward.Last = true
	return []xtables.Jump{
		// Only first packets: whatever is established was let in once.
		at(xtables.Filter, "INPUT", newFlow, chainFilter, "refuse or drop"),
		at(xtables.Filter, "FORWARD", newFlow, chainFilter, "refuse or drop"),
		at(xtables.Filter, "FORWARD", newFlow, chainUnused, "addresses of no Service"),
		forward,
		at(xtables.Filter, "OUTPUT", newFlow, chainUnused, "addresses of no Service"),
		at(xtables.NAT, "PREROUTING", "", chainServices, "mark for source rewriting"),
		at(xtables.NAT, "OUTPUT", "", chainLocal, "mark for source rewriting"),
		at(xtables.NAT, "POSTROUTING", "", chainPostrouting, "source rewriting"),
	}
}

// filterChain refuses what no virtual server takes. IPVS stands behind it at
// INPUT; what reaches the end here is served, or not to an address of ours.
// Packets of the node's own processes come by here too, by way of lo, unless
// IPVS took them at OUTPUT. It is better so: a packet that is refused at OUTPUT
// fails the system call with "operation not permitted".
func filterChain(f dataplane.Family) xtables.Chain {
	vip, notServed := matches(f, addresses), "-m set ! --match-set "+setID{services, f}.String()+" dst,dst"
	return xtables.Chain{Table: xtables.Filter, Name: chainFilter, Rules: []string{
		matches(f, dropped) + " -j DROP",
		// A reset is not held back by the kernel's limit for ICMP errors.
		"-p tcp " + vip + " " + notServed + " -j REJECT --reject-with tcp-reset",
		// A ping too: a VIP is no host. Errors about a flow are RELATED, not NEW,
		// and pass.
		vip + " " + notServed + " -j REJECT --reject-with " + unreachable(f),
	}}
}

// unusedChain drops what would leave the node for an address in a range of
// Services, by the default route for want of a better one. What a frontend has
// is local: it does not come by in FORWARD, and leaves OUTPUT by way of lo.
func unusedChain(node dataplane.Node) xtables.Chain {
	c := xtables.Chain{Table: xtables.Filter, Name: chainUnused}
	for _, p := range node.ServiceRanges {
		c.Rules = append(c.Rules, within("-d", p)+"! -o lo -j DROP")
	}
	return c
}

// forwardChain lets the answers of endpoints, and what Pods send each other
// directly, through a FORWARD policy of DROP. What goes to the endpoints leaves
// by OUTPUT: IPVS sends it from this node.
func forwardChain(node dataplane.Node) xtables.Chain {
	c := xtables.Chain{Table: xtables.Filter, Name: chainForward}
	for _, p := range node.ServiceRanges {
		to := p.Masked().String()
		if p.IsSingleIP() {
			to = p.Addr().String()
		}
		c.Rules = append(c.Rules, knownFlow+"--ctorigdst "+to+" -j ACCEPT")
	}
	for _, match := range xtables.PodToPod(node) {
		c.Rules = append(c.Rules, match+" -j ACCEPT")
	}
	return c
}

// within is the match of a range with a blank behind it, or nothing for the
// range of all addresses, as iptables-save prints it.
func within(option string, p netip.Prefix) string {
	if p.Bits() == 0 {
		return ""
	}
	return option + " " + p.Masked().String() + " "
}

// servicesChain marks packets that come in for masquerading.
func servicesChain(f dataplane.Family, node dataplane.Node) xtables.Chain {
	c := xtables.Chain{Table: xtables.NAT, Name: chainServices, Rules: []string{
		"-m set ! --match-set " + setID{services, f}.String() + " dst,dst -j RETURN",
		matches(f, masqueraded) + " " + setMark,
	}}
	if len(node.PodRanges) == 0 {
		return c
	}
	for _, p := range node.PodRanges {
		c.Rules = append(c.Rules, within("-s", p)+"-j RETURN")
	}
	c.Rules = append(c.Rules, matches(f, kept)+" -j RETURN", setMark)
	return c
}

// localChain does the same for packets of the node's own processes. Their
// source is the one that the route of the VIP names, which may lie in a range
// of Pods; they are the node's all the same.
func localChain(f dataplane.Family, node dataplane.Node) xtables.Chain {
	c := xtables.Chain{Table: xtables.NAT, Name: chainLocal}
	if len(node.PodRanges) == 0 {
		return c
	}
	c.Rules = []string{
		matches(f, kept) + " -j RETURN",
		matches(f, services) + " " + setMark,
	}
	return c
}

// postroutingChain rewrites sources: of a Pod that was sent to itself, which
// would never answer its own address, and of what is marked. The mark is taken
// off, or a tunnel would hand it on to the packet around this one.
func postroutingChain(f dataplane.Family) xtables.Chain {
	return xtables.Chain{Table: xtables.NAT, Name: chainPostrouting, Rules: []string{
		matches(f, hairpin) + " " + masq,
		"-m mark ! --mark " + mark + " -j RETURN",
		"-j MARK --set-xmark 0x0/0xc000",
		masq,
	}}
}

// matches is the match of packets whose destination is in a set.
func matches(f dataplane.Family, k setKind) string {
	return "-m set --match-set " + setID{k, f}.String() + " " + k.traits().fields
}
