package ipvs

import (
	"fmt"
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// Chains of ours. Their number and length do not depend on how many Services
// there are: what differs stands in the sets. Those about sets that are not
// always there come and go with the sets.
const (
	chainServices    = xtables.Prefix + "SERVICES"
	chainLocal       = xtables.Prefix + "LOCAL"
	chainPostrouting = xtables.Prefix + "POSTROUTING"
	chainFilter      = xtables.Prefix + "FILTER"
	chainSources     = xtables.Prefix + "SOURCES"
	chainUnused      = xtables.Prefix + "UNUSED"
	chainOut         = xtables.Prefix + "OUT"
	chainForward     = xtables.Prefix + "FORWARD"
	chainMarkIn      = xtables.Prefix + "MARK-IN"
	chainMarkOut     = xtables.Prefix + "MARK-OUT"
	chainArrived     = xtables.Prefix + "ARRIVED"
)

const (
	newFlow = "-m conntrack --ctstate NEW "
	// knownFlow holds also for what another backend has translated, whose rules go when
	// all of ours stand.
	knownFlow = "-m conntrack --ctstate RELATED,ESTABLISHED,DNAT "
	// firstPacket is narrower than newFlow, which holds until there is an answer.
	firstPacket = "-m conntrack ! --ctstatus CONFIRMED "
	masq        = "-j MASQUERADE --random-fully"
)

// unreachable is how a family spells the refusal of anything but TCP.
func unreachable(f dataplane.Family) string {
	if f == dataplane.IPv6 {
		return "icmp6-port-unreachable"
	}
	return "icmp-port-unreachable"
}

// ruleset returns all rules of a family. docs/packet-path.md draws them.
func (t target) ruleset() xtables.Ruleset {
	r := xtables.Ruleset{Family: t.family}
	chain := func(table xtables.Table, name string, rules []string) {
		r.Chains = append(r.Chains, xtables.Chain{Table: table, Name: name, Rules: rules})
	}
	if rules := t.sourceRules(); rules != nil {
		chain(xtables.Filter, chainSources, rules)
	}
	chain(xtables.Filter, chainFilter, t.filterRules())
	chain(xtables.Filter, chainUnused, unusedRules(t.node))
	chain(xtables.Filter, chainOut, []string{"-p tcp -j REJECT --reject-with tcp-reset", "-j REJECT --reject-with " + unreachable(t.family)})
	chain(xtables.Filter, chainForward, t.forwardRules())
	in, out := t.markInRules(), t.markOutRules()
	if in != nil {
		chain(xtables.Mangle, chainMarkIn, in)
	}
	if t.has(brought) {
		chain(xtables.Mangle, chainArrived, t.arrivedRules())
	}
	if out != nil {
		chain(xtables.Mangle, chainMarkOut, out)
	}
	chain(xtables.NAT, chainServices, t.servicesRules())
	chain(xtables.NAT, chainLocal, t.localRules())
	chain(xtables.NAT, chainPostrouting, t.postroutingRules())
	r.Jumps = t.jumps(in != nil, out != nil)
	// IPVS translates by address alone, but what is masqueraded besides is known to
	// connection tracking only.
	chains, strays := xtables.Strays(t.node, "-p tcp "+t.in(services))
	r.Chains, r.Jumps = append(chains, r.Chains...), append(strays, r.Jumps...)
	return r
}

// jumps lead from the built-in chains into ours; those of table mangle only where
// there is something to do.
func (t target) jumps(markIn, markOut bool) []xtables.Jump {
	at := func(table xtables.Table, base, match, chain, why string) xtables.Jump {
		return xtables.Jump{Table: table, Base: base, Rule: match + xtables.JumpComment(why) + " -j " + chain}
	}
	// Behind whatever an administrator has to say.
	forward := at(xtables.Filter, "FORWARD", "", chainForward, "forward what Services and Pods send")
	forward.Last = true
	out := []xtables.Jump{
		// Only first packets: whatever is established was let in once.
		at(xtables.Filter, "INPUT", newFlow, chainFilter, "refuse or drop"),
		at(xtables.Filter, "FORWARD", newFlow, chainFilter, "refuse or drop"),
		at(xtables.Filter, "FORWARD", newFlow, chainUnused, "addresses of no Service"),
		forward,
		at(xtables.Filter, "OUTPUT", newFlow, chainUnused, "addresses of no Service"),
		at(xtables.Filter, "OUTPUT", "-m mark --mark "+t.refused()+" ", chainOut, "refuse"),
		at(xtables.NAT, "PREROUTING", "", chainServices, "mark for source rewriting"),
		at(xtables.NAT, "OUTPUT", "", chainLocal, "mark for source rewriting"),
		at(xtables.NAT, "POSTROUTING", "", chainPostrouting, "source rewriting"),
	}
	if markIn {
		out = append(out, at(xtables.Mangle, "PREROUTING", "", chainMarkIn, "choose by source"))
	}
	if t.has(brought) {
		out = append(out, at(xtables.Mangle, "INPUT", "", chainArrived, "marks have done their work"))
	}
	if markOut {
		out = append(out, at(xtables.Mangle, "OUTPUT", firstPacket, chainMarkOut, "choose by source"))
	}
	return out
}

// refuseRules are the rules that refuse what matches. A reset is not held back by the
// kernel's limit for ICMP errors.
func refuseRules(f dataplane.Family, match string) []string {
	return []string{
		"-p tcp " + match + " -j REJECT --reject-with tcp-reset",
		match + " -j REJECT --reject-with " + unreachable(f),
	}
}

// filterRules drop who may not, and refuse what no virtual server takes. IPVS
// stands behind them at INPUT; what reaches the end here is served, or not to a
// frontend. Packets of the node's own processes that nobody took at OUTPUT come by
// here too, by way of lo.
func (t target) filterRules() []string {
	var out []string
	if t.has(restricted) {
		out = append(out, t.notAllowed()+" -j DROP")
	}
	if t.has(dropped) {
		out = append(out, t.in(dropped)+" -j DROP")
	}
	if t.sourceRules() != nil {
		out = append(out, "-j "+chainSources)
	}
	// A ping to an address that is ours is refused too: a VIP is no host. Errors
	// about a flow are RELATED, not NEW, and pass.
	out = append(out, refuseRules(t.family, t.in(addresses)+" "+t.notIn(services))...)
	if t.has(ports) {
		out = append(out, refuseRules(t.family, t.in(ports)+" "+t.notIn(services))...)
	}
	return out
}

// notAllowed matches packets to restricted frontends from sources that may not.
func (t target) notAllowed() string { return t.in(restricted) + " " + t.notIn(allowed) }

// sourceRules refuse and drop for one class of sources; nil if there is nothing
// of that kind. What comes by way of lo is the node's own: for it, table mangle
// has decided.
func (t target) sourceRules() []string {
	var pod, outside []string
	add := func(rules *[]string, drop, refuse setKind) {
		if t.has(drop) {
			*rules = append(*rules, t.in(drop)+" -j DROP")
		}
		if t.has(refuse) {
			*rules = append(*rules, refuseRules(t.family, t.in(refuse))...)
		}
	}
	add(&pod, dropPod, refusePod)
	add(&outside, dropOutside, refuseOutside)
	if rules := t.bySource(pod, outside); rules != nil {
		return append([]string{"-i lo -j RETURN"}, rules...)
	}
	return nil
}

// bySource returns rules that apply one list to packets from Pods, and the other
// to the rest, where the two can be told apart.
func (t target) bySource(pod, outside []string) []string {
	if !t.classes.outside() {
		return pod
	}
	var out []string
	for _, from := range fromPods(t.node) {
		for _, rule := range pod {
			out = append(out, from+rule)
		}
		if outside != nil {
			out = append(out, from+"-j RETURN")
		}
	}
	return append(out, outside...)
}

// unusedRules drop what would leave the node for an address in a range of
// Services, by the default route for want of a better one. What a frontend has
// is local: it does not come by in FORWARD, and leaves OUTPUT by way of lo.
func unusedRules(node dataplane.Node) []string {
	var out []string
	for _, p := range node.ServiceRanges {
		out = append(out, within("-d", p)+"! -o lo -j DROP")
	}
	return out
}

// forwardRules let the answers of endpoints, and what Pods send each other
// directly, through a FORWARD policy of DROP. What goes to the endpoints leaves
// by OUTPUT: IPVS sends it from this node.
func (t target) forwardRules() []string {
	var out []string
	for _, p := range t.node.ServiceRanges {
		to := p.Masked().String()
		if p.IsSingleIP() {
			to = p.Addr().String()
		}
		out = append(out, knownFlow+"--ctorigdst "+to+" -j ACCEPT")
	}
	if t.has(ports) {
		out = append(out, knownFlow+"-m connmark --mark "+t.ours()+" -j ACCEPT")
	}
	for _, match := range xtables.PodToPod(t.node) {
		out = append(out, match+" -j ACCEPT")
	}
	return out
}

// within is the match of a range with a blank behind it, or nothing for the
// range of all addresses, as iptables-save prints it.
func within(option string, p netip.Prefix) string {
	if p.Bits() == 0 {
		return ""
	}
	return option + " " + p.Masked().String() + " "
}

// servicesRules mark packets that come in for masquerading. Connections to
// frontends outside of the Service ranges are marked as ours, too: TOY-FORWARD
// could not know them otherwise.
func (t target) servicesRules() []string {
	out := []string{t.notIn(services) + " -j RETURN"}
	if t.has(ports) {
		out = append(out, t.in(ports)+" -j CONNMARK --set-xmark "+t.ours())
	}
	return append(out, t.bySource([]string{t.in(masqueraded) + " " + t.masquerade()},
		[]string{t.in(kept) + " -j RETURN", t.masquerade()})...)
}

// localRules do the same for packets of the node's own processes. The source of
// those to a VIP is the one that its route names, which may lie in a range of
// Pods; they are the node's all the same.
//
// What is to be refused before IPVS sees it gets another destination and a mark:
// IPVS would answer by ICMP for a virtual server that is only there for the
// connections that it has, and TCP heeds that only after a second. The packet goes
// no further than TOY-OUT. Datagrams come by TOY-FILTER instead where they can, by
// way of lo, because at OUTPUT a refusal fails the system call with "operation not
// permitted".
func (t target) localRules() []string {
	refuse := " -j MARK --set-xmark " + t.refused()
	out := []string{"-p tcp " + t.in(addresses) + " " + t.notIn(services) + refuse}
	if t.has(ports) {
		out = append(out, "-p tcp "+t.in(ports)+" "+t.notIn(services)+refuse)
	}
	if t.has(brought) {
		out = append(out, t.in(brought)+" "+t.notIn(services)+refuse)
	}
	if t.has(refuseNode) {
		out = append(out, t.in(refuseNode)+refuse)
	}
	out = append(out, "-m mark --mark "+t.refused()+" -j DNAT --to-destination "+loopback(t.family))
	if t.has(keptNode) {
		out = append(out, t.in(keptNode)+" -j RETURN")
	}
	return append(out, t.in(services)+" "+t.masquerade())
}

// postroutingRules rewrite sources: of a Pod that was sent to itself, which would
// never answer its own address, and of what is marked. Marks are taken off, or a
// tunnel would hand them on to the packet around this one.
func (t target) postroutingRules() []string {
	m := marking{t.node.Marks()}
	var out []string
	if t.has(brought) || t.has(marks) {
		out = append(out, "-m mark --mark "+under(m.tagged())+" -j MARK --set-xmark "+under(0, ^m.Mask))
	}
	return append(out,
		t.in(hairpin)+" "+masq,
		"-m mark ! --mark "+under(m.Masquerade, m.Mask)+" -j RETURN",
		"-j MARK --set-xmark "+under(0, m.Mask),
		masq,
	)
}

// masquerade is the target that says: rewrite the source of this packet when it
// leaves. Bits of the mark that are not ours belong to others.
func (t target) masquerade() string {
	m := t.node.Marks()
	return "-j MARK --set-xmark " + under(m.Masquerade, m.Mask)
}

// refused is the mark of packets of the node that are to be refused.
func (t target) refused() string {
	m := t.node.Marks()
	return under(m.Refuse, m.Mask)
}

// loopback is an address that no virtual server has.
func loopback(f dataplane.Family) string {
	if f == dataplane.IPv6 {
		return "::1"
	}
	return "127.0.0.1"
}

// ours is the bit of a connection's mark that says: to a frontend outside of the
// Service ranges.
func (t target) ours() string {
	m := t.node.Marks()
	return under(m.Masquerade, m.Masquerade)
}

// under writes a mark and its mask as iptables-save does.
func under(value, mask uint32) string { return fmt.Sprintf("%#x/%#x", value, mask) }

// in is the match of packets whose destination is in a set.
func (t target) in(k setKind) string {
	return "-m set --match-set " + setID{k, t.family}.String() + " " + k.traits().fields
}

// notIn is the match of packets whose destination is not in a set.
func (t target) notIn(k setKind) string {
	return "-m set ! --match-set " + setID{k, t.family}.String() + " " + k.traits().fields
}
