package iptables

import (
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// markText is the node's marks as iptables writes them: values that carry a
// decision from table nat to where it can be carried out. They are set and tested
// under one mask of two bits; no other bit of a mark is touched.
type markText struct {
	masquerade, drop, refuse, clear string
	// verdict matches drop and refuse alike: one test for all other packets.
	verdict string
	// ours is the one bit that the mark of a tracked connection gets when it is
	// to a frontend outside of the Service ranges.
	ours string
}

// marksOf writes the marks of a node.
func marksOf(n dataplane.Node) markText {
	m := n.Marks()
	under := func(value, mask uint32) string { return fmt.Sprintf("%#x/%#x", value, mask) }
	return markText{
		masquerade: under(m.Masquerade, m.Mask), drop: under(m.Drop, m.Mask), refuse: under(m.Refuse, m.Mask),
		clear: "0x0/" + fmt.Sprintf("%#x", m.Mask), verdict: under(m.Drop, m.Drop), ours: under(m.Masquerade, m.Masquerade),
	}
}

// setMark is the target that sets one of the marks.
func setMark(value string) string { return "-j MARK --set-xmark " + value }

// markChains are the chains of nat that note a decision. Refused and dropped
// packets leave the table at once: nobody shall translate them.
func markChains(m markText) []xtables.Chain {
	return []xtables.Chain{
		natChain(markMasqChain, setMark(m.masquerade)),
		natChain(refuseChain, setMark(m.refuse), "-j ACCEPT"),
		natChain(dropChain, setMark(m.drop), "-j ACCEPT"),
	}
}

// natChain is a chain of nat that all Services share.
func natChain(name string, rules ...string) xtables.Chain {
	return xtables.Chain{Table: xtables.NAT, Name: name, Rules: rules}
}

// filterChains carry out what the marks say, and let what a node of Pods has to
// forward pass a FORWARD policy of DROP. They have the same size whatever the
// table holds.
func (l *layout) filterChains() []xtables.Chain {
	m := marksOf(l.node)
	unreachable := "icmp-port-unreachable"
	if l.family == dataplane.IPv6 {
		unreachable = "icmp6-port-unreachable"
	}
	return []xtables.Chain{
		{Table: xtables.Filter, Name: filterChain, Rules: []string{
			"-p tcp -m mark --mark " + m.refuse + " -j REJECT --reject-with tcp-reset",
			"-m mark --mark " + m.refuse + " -j REJECT --reject-with " + unreachable,
			"-m mark --mark " + m.drop + " -j DROP",
		}},
		l.forward(),
	}
}

// sentOrKnown matches what our rules have translated, and flows that IPVS carries to
// their end: connection tracking has no part in the translation of those.
const sentOrKnown = "-m conntrack --ctstate RELATED,ESTABLISHED,DNAT"

// forward accepts what was sent to a Service address, and its answers; and
// what Pods send each other directly, which the node routes even between its own.
//
// What was sent to other addresses of ours is known by a bit of the connection's
// mark that its frontend sets: a rule for each address would grow with the
// Services, and translated connections of others are none of our business.
func (l *layout) forward() xtables.Chain {
	var out []string
	for _, r := range l.node.ServiceRanges {
		match := sentOrKnown
		switch {
		case r.IsSingleIP():
			match += " --ctorigdst " + r.Addr().String()
		case r.Bits() > 0:
			match += " --ctorigdst " + r.Masked().String()
		}
		out = append(out, rule(match, "-j ACCEPT"))
	}
	if l.outer > 0 {
		out = append(out, rule(sentOrKnown, "-m connmark --mark "+marksOf(l.node).ours, "-j ACCEPT"))
	}
	for _, p := range xtables.PodToPod(l.node) {
		out = append(out, rule(p, "-j ACCEPT"))
	}
	return xtables.Chain{Table: xtables.Filter, Name: forwardChain, Rules: out}
}

// outer reports whether what is sent to a frontend cannot be known by the
// Service ranges.
func outer(fe dataplane.Frontend, n dataplane.Node) bool {
	return fe.Kind == dataplane.NodePort || !contains(n.ServiceRanges, fe.Addr)
}

// postrouting rewrites the source of marked packets and of hairpin packets.
// Only translated packets look for the latter.
func postrouting(m markText, with means) []xtables.Chain {
	return []xtables.Chain{
		natChain(masqueradeChain, setMark(m.clear), masquerade(with)),
		natChain(postroutingChain,
			rule("-m mark --mark "+m.masquerade, goTo(masqueradeChain)),
			rule("-m conntrack --ctstate DNAT", jump(hairpinChain))),
	}
}

// jumps lead from the built-in chains into ours.
func jumps(m markText) []xtables.Jump {
	at := func(t xtables.Table, base, match, chain, why string) xtables.Jump {
		return xtables.Jump{Table: t, Base: base, Rule: rule(match, xtables.JumpComment(why), jump(chain))}
	}
	forward := at(xtables.Filter, "FORWARD", "", forwardChain, "forward what Services and Pods send")
	forward.Last = true
	verdict := "-m mark --mark " + m.verdict
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
