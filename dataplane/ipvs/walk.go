package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// Walk follows a packet through what a table asks for. Pure.
func (b *Backend) Walk(t dataplane.Table, p dataplane.Packet) (dataplane.Trace, error) {
	want := newTarget(t, dataplane.FamilyOf(p.Addr), b.config.Scheduler)
	tr := want.ground().walk(p)
	for _, l := range want.leftOut {
		if l.object == "frontend "+p.Key.String() {
			tr.Note("%s is left out: %s", l.object, l.reason)
		}
	}
	return tr, nil
}

// walk sends a packet through the hooks in the kernel's order.
func (g ground) walk(p dataplane.Packet) dataplane.Trace {
	w := &walker{ground: g, Walker: xtables.Walker{Rules: g.rules, Packet: p, Describe: describe}}
	w.Member, w.MarkIn = w.member, w.markIn
	if p.In == "" {
		w.send(w.Start())
	} else {
		w.receive(w.Start())
	}
	return w.Finish(w.left)
}

// walker follows one packet.
type walker struct {
	xtables.Walker
	ground
	// left are the parts that have been through all hooks.
	left []xtables.Part
}

// receive follows what comes in by a link.
func (w *walker) receive(parts []xtables.Part) {
	parts = w.Hook(xtables.Mangle, "PREROUTING", parts)
	for _, at := range w.Hook(xtables.NAT, "PREROUTING", parts) {
		one := []xtables.Part{at}
		if w.takesIn(at) {
			w.input(one)
			continue
		}
		w.leave(w.Hook(xtables.Filter, "FORWARD", one))
	}
}

// input follows what the node takes for its own: IPVS stands behind the filter.
func (w *walker) input(parts []xtables.Part) {
	parts = w.Hook(xtables.Mangle, "INPUT", parts)
	for _, at := range w.Hook(xtables.Filter, "INPUT", parts) {
		if sent, taken := w.balance("IPVS at INPUT", at); taken {
			w.out(sent)
			continue
		}
		w.left = append(w.left, at)
	}
}

// send follows what the node itself sends: IPVS stands before the filter, and
// what it does not take and is the node's own comes back by way of lo.
func (w *walker) send(parts []xtables.Part) {
	parts = w.Hook(xtables.Mangle, "OUTPUT", parts)
	for _, at := range w.Hook(xtables.NAT, "OUTPUT", parts) {
		if sent, taken := w.balance("IPVS at OUTPUT", at); taken {
			w.out(sent)
			continue
		}
		local := w.isLocal(at.To.Addr())
		if local {
			at.Out = "lo"
		}
		for _, at := range w.Hook(xtables.Filter, "OUTPUT", []xtables.Part{at}) {
			if !local {
				w.leave([]xtables.Part{at})
				continue
			}
			at.In, at.Out = "lo", ""
			w.input(w.Hook(xtables.Mangle, "PREROUTING", []xtables.Part{at}))
		}
	}
}

// isLocal reports whether what the node sends to an address stays in it.
func (w *walker) isLocal(a netip.Addr) bool {
	return w.routes[a] || w.Packet.Owns(a) || a.IsLoopback()
}

// out follows what IPVS sends to endpoints.
func (w *walker) out(parts []xtables.Part) { w.leave(w.Hook(xtables.Filter, "OUTPUT", parts)) }

func (w *walker) leave(parts []xtables.Part) {
	w.left = append(w.left, w.Hook(xtables.NAT, "POSTROUTING", parts)...)
}

// takesIn reports whether routes make the node take a part for its own.
func (w *walker) takesIn(at xtables.Part) bool {
	a := at.To.Addr()
	route := func(line, why string) {
		w.Trace.Take(dataplane.Step{Hook: "routing", Chain: "ip", Rule: line, Why: why, Subject: dataplane.AboutDispatch, Share: at.Share})
	}
	if w.routes[a] {
		route("route "+routeLine(a, netip.Addr{}), "the node takes the packet in")
		return true
	}
	for _, p := range w.policies {
		if p.mask != 0 && at.Mark&p.mask == p.mark && w.inbound[a] {
			route("rule "+p.line(), "the mark leads to a table of routes of its own")
			route("route "+inboundLine(a), "there the address is local: the node takes the packet in")
			return true
		}
	}
	return w.Packet.Owns(a)
}

// balance divides a part among the real servers of the virtual server that takes
// it, if one does: that of its mark, else the one that it dials.
func (w *walker) balance(hook string, at xtables.Part) (sent []xtables.Part, taken bool) {
	v, ok := w.servers[serverID{dataplane.Key{Addr: unspecified(w.family)}, at.Mark}]
	if at.Mark == 0 || !ok {
		key := dataplane.Key{Addr: at.To.Addr(), Protocol: w.Packet.Protocol, Port: at.To.Port()}
		if v, ok = w.servers[serverID{Key: key}]; !ok {
			return nil, false
		}
	}
	step := dataplane.Step{Hook: hook, Chain: "ipvsadm", Rule: v.line("A"), Share: at.Share,
		Subject: dataplane.AboutDispatch, Why: "a virtual server takes it, scheduler " + v.scheduler}
	if v.mark != 0 {
		step.Subject, step.Why = dataplane.AboutClass, "a virtual server for that mark takes it, scheduler "+v.scheduler
	}
	w.Trace.Take(step)
	if v.flags&persistent != 0 {
		step.Subject, step.Why = dataplane.AboutAffinity, fmt.Sprintf("a client comes back to its endpoint for %d seconds", v.timeout)
		step.Rule += " (persistent)"
		w.Trace.Take(step)
	}
	return w.schedule(step, *v, at), true
}

// schedule divides a part by weight, or evenly where the scheduler looks at none.
func (w *walker) schedule(step dataplane.Step, v virtualServer, at xtables.Part) (sent []xtables.Part) {
	weight := func(r realServer) float64 {
		if v.scheduler == "rr" && r.weight > 0 {
			return 1
		}
		return float64(r.weight)
	}
	var total float64
	for _, r := range v.real {
		total += weight(r)
	}
	if total == 0 {
		step.Rule, step.Why, step.Subject = v.line("A")+" (no real server)", "none of its real servers takes new connections", dataplane.AboutRefusal
		w.Trace.Take(step)
		w.End(dataplane.Refused, at)
		return nil
	}
	for _, r := range slices.SortedFunc(slices.Values(v.real), compareReal) {
		one := at
		if one.Share *= weight(r) / total; one.Share == 0 {
			continue
		}
		one.To, one.Translated, one.In = r.addr.addrPort(), true, ""
		step.Rule, step.Why, step.Subject, step.Share = r.line("a", v), v.chooses()+" the endpoint becomes the destination", dataplane.AboutChoice, one.Share
		w.Trace.Take(step)
		sent = append(sent, one)
	}
	return sent
}

// chooses says how the scheduler comes to an endpoint.
func (v virtualServer) chooses() string {
	switch v.scheduler {
	case "rr", "wrr":
		return "in its turn"
	case "sh", "mh":
		return "for clients with that hash"
	}
	return "when the scheduler chooses it"
}

// kindNamed returns the kind of the set that has a name.
func (w *walker) kindNamed(name string) (setKind, bool) {
	for k := range setKinds {
		if (setID{k, w.family}).String() == name {
			return k, true
		}
	}
	return 0, false
}

// fields is the entry that a match makes of a part, by what it looks at.
func (w *walker) fields(names string, at xtables.Part) entry {
	e := entry{addr: at.To.Addr()}
	list := strings.Split(names, ",")
	if len(list) > 1 {
		e.protocol, e.port = w.Packet.Protocol, at.To.Port()
	}
	if len(list) > 2 {
		e.source = w.Packet.Src
	}
	return e
}

// member reports whether a set of ours has a part of the packet.
func (w *walker) member(set, fields string, at xtables.Part) (member, known bool) {
	k, known := w.kindNamed(set)
	if !known {
		return false, false
	}
	want := w.fields(fields, at)
	if _, member = w.sets[k][want]; member || k != allowed {
		return member, true
	}
	for e := range w.sets[k] {
		if e.bits > 0 && e.key() == want.key() && netip.PrefixFrom(e.source, int(e.bits)).Contains(want.source) {
			return true, true
		}
	}
	return false, true
}

// markIn returns the mark that a set has for a part.
func (w *walker) markIn(set, fields string, at xtables.Part) (mark uint32, ok bool) {
	k, known := w.kindNamed(set)
	if !known || !k.mapped() {
		return 0, false
	}
	mark, ok = w.sets[k][w.fields(fields, at)]
	return mark, ok
}
