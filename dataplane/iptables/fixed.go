package iptables

import (
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// Marks that carry a decision from table nat to where it can be carried out.
// They are set and tested under one mask of two bits, which no other value of
// the packet's mark is touched by.
const (
	markMask       = "0xc000"
	markMasquerade = "0x4000/" + markMask
	markDrop       = "0x8000/" + markMask
	markRefuse     = "0xc000/" + markMask
	// markVerdict matches drop and refuse alike: one test for all other packets.
	markVerdict = "0x8000/0x8000"
	markClear   = "0x0/" + markMask
)

// setMark is the target that sets one of the marks.
func setMark(value string) string { return "-j MARK --set-xmark " + value }

// markChains are the chains of nat that note a decision. Refused and dropped
// packets leave the table at once: nobody shall translate them.
func markChains() []xtables.Chain {
	return []xtables.Chain{
		natChain(markMasqChain, setMark(markMasquerade)),
		natChain(refuseChain, setMark(markRefuse), "-j ACCEPT"),
		natChain(dropChain, setMark(markDrop), "-j ACCEPT"),
	}
}

// natChain is a chain of nat that all Services share.
func natChain(name string, rules ...string) xtables.Chain {
	return xtables.Chain{Table: xtables.NAT, Name: name, Rules: rules}
}

// filterChains carry out what the marks say, and let what a node of Pods has to
// forward pass a FORWARD policy of DROP. They have the same size whatever the
// table holds.
func filterChains(f dataplane.Family, n dataplane.Node) []xtables.Chain {
	unreachable := "icmp-port-unreachable"
	if f == dataplane.IPv6 {
		unreachable = "icmp6-port-unreachable"
	}
	return []xtables.Chain{
		{Table: xtables.Filter, Name: filterChain, Rules: []string{
			"-p tcp -m mark --mark " + markRefuse + " -j REJECT --reject-with tcp-reset",
			"-m mark --mark " + markRefuse + " -j REJECT --reject-with " + unreachable,
			"-m mark --mark " + markDrop + " -j DROP",
		}},
		{Table: xtables.Filter, Name: forwardChain, Rules: forwardRules(n)},
	}
}

// forwardRules accept what was sent to a Service address, and its answers; and
// what Pods send each other directly, which the node routes even between its own.
func forwardRules(n dataplane.Node) []string {
	var out []string
	for _, r := range n.ServiceRanges {
		match := "-m conntrack --ctstate DNAT"
		switch {
		case r.IsSingleIP():
			match += " --ctorigdst " + r.Addr().String()
		case r.Bits() > 0:
			match += " --ctorigdst " + r.Masked().String()
		}
		out = append(out, rule(match, "-j ACCEPT"))
	}
	for _, p := range xtables.PodToPod(n) {
		out = append(out, rule(p, "-j ACCEPT"))
	}
	return out
}

// postrouting rewrites the source of marked packets and of hairpin packets.
// Only translated packets look for the latter.
func postrouting(randomFully bool) []xtables.Chain {
	masquerade := "-j MASQUERADE"
	if randomFully {
		masquerade += " --random-fully"
	}
	return []xtables.Chain{
		natChain(masqueradeChain, setMark(markClear), masquerade),
		natChain(postroutingChain,
			rule("-m mark --mark "+markMasquerade, goTo(masqueradeChain)),
			rule("-m conntrack --ctstate DNAT", jump(hairpinChain))),
	}
}

// jumps lead from the built-in chains into ours.
func jumps() []xtables.Jump {
	at := func(t xtables.Table, base, match, chain, why string) xtables.Jump {
		return xtables.Jump{Table: t, Base: base, Rule: rule(match, xtables.JumpComment(why), jump(chain))}
	}
	forward := at(xtables.Filter, "FORWARD", "", forwardChain, "forward what Services and Pods send")
	forward.Last = true
	verdict := "-m mark --mark " + markVerdict
	return []xtables.Jump{
		at(xtables.Filter, "INPUT", verdict, filterChain, "refuse or drop"),
		at(xtables.Filter, "FORWARD", verdict, filterChain, "refuse or drop"),
		forward,
		at(xtables.Filter, "OUTPUT", verdict, filterChain, "refuse or drop"),
		at(xtables.NAT, "PREROUTING", "", servicesChain, "frontends"),
		at(xtables.NAT, "OUTPUT", "", servicesChain, "frontends"),
		at(xtables.NAT, "POSTROUTING", "", postroutingChain, "source rewriting"),
	}
}
