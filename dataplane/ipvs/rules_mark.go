package ipvs

// The rules of table mangle. They stand before IPVS, and before the routing of
// what comes in.

// markInRules give packets that come in the marks that they need; nil if none
// does. Packets to addresses that the node does not have, the mark by which they are
// brought in; first packets that one class of sources sends to other
// endpoints than the rest, the mark of a virtual server. It serves the former
// purpose as well.
func (t target) markInRules() []string {
	var out []string
	m := marking{t.node.Marks()}
	if t.has(brought) {
		bring := "-j MARK --set-xmark " + under(m.mark(delivery, false), ^m.Mask)
		// What is to be refused is not brought in but refused where it is forwarded:
		// the kernel sends no ICMP error in the name of such an address. What has been
		// let in once may still have connections.
		out = append(out, t.in(brought)+" "+t.in(services)+" "+bring,
			t.in(brought)+" -m conntrack --ctstatus CONFIRMED "+bring,
			// Errors about a connection name no port of ours.
			"-m conntrack --ctstate RELATED --ctdir ORIGINAL "+t.in(arrivals)+" "+bring)
	}
	var pod, outside []string
	if t.has(markPod) {
		pod = append(pod, t.toMark(markPod))
	}
	if t.has(markOutside) {
		outside = append(outside, t.toMark(markOutside))
	}
	if pod == nil && outside == nil {
		return out
	}
	out = append(out, "-m conntrack --ctstatus CONFIRMED -j RETURN")
	return append(out, t.bySource(pod, outside)...)
}

// arrivedRules take the mark off packets that were brought in: IPVS is not to ask
// for a virtual server of that mark.
func (t target) arrivedRules() []string {
	m := marking{t.node.Marks()}
	return []string{"-m mark --mark " + under(m.mark(delivery, false), ^m.Mask) + " -j MARK --set-xmark " + under(0, ^m.Mask)}
}

// markOutRules decide about first packets of the node's own processes, because
// IPVS takes them before table filter sees them; nil if there is nothing to decide.
func (t target) markOutRules() []string {
	var out []string
	if t.has(restricted) {
		out = append(out, t.notAllowed()+" -j DROP")
	}
	if t.has(dropped) {
		// A virtual server may be there still, for the connections that it has.
		out = append(out, t.in(dropped)+" -j DROP")
	}
	if t.has(dropNode) {
		out = append(out, t.in(dropNode)+" -j DROP")
	}
	if t.has(markNode) {
		out = append(out, t.toMark(markNode))
	}
	return out
}

// toMark is the target that gives packets the marks of a set.
func (t target) toMark(k setKind) string {
	return "-j SET --map-set " + setID{k, t.family}.String() + " " + k.traits().fields + " --map-mark"
}
