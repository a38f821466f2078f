package ipvs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// observed is what the kernel holds of one family, apart from rules.
type observed struct {
	family dataplane.Family
	// sets holds those of our sets that exist.
	sets [setKinds]*heldSet
	// spares are sets that a killed process left while it made a larger one.
	spares []string
	// routes are the local routes of ours, by address.
	routes map[netip.Addr]heldRoute
	// local are addresses that are local by somebody else's doing.
	local map[netip.Addr]bool
	// servers are all virtual servers of the family, also those of others.
	servers map[serverID]*virtualServer
	// source is the address that local clients of a VIP should send from; not
	// valid when the node has none.
	source netip.Addr
	// inbound are the routes of our own table, and policies the rules that lead
	// to it.
	inbound  map[netip.Addr]heldRoute
	policies []policy
	// lacks are the kinds of sets that are wanted and that the kernel cannot make, or
	// cannot make use of.
	lacks [setKinds]bool
	// now is when it was read.
	now time.Time
	// whole is what this is a part of, if it is one.
	whole *observed
}

// heldSet is a set in the kernel.
type heldSet struct {
	typeName string
	capacity uint32
	entries  map[entry]struct{}
}

// heldRoute is a local route of ours.
type heldRoute struct {
	source netip.Addr
	// priority is the metric, which IPv6 needs to delete the route.
	priority uint32
	// loopback: its link is lo.
	loopback bool
}

// owns reports whether a virtual server in the kernel is ours.
func (o observed) owns(k serverID) bool {
	if o.whole != nil {
		return o.whole.owns(k)
	}
	if k.mark != 0 {
		_, marked := o.entries(marks)[entry{addr: k.Addr, mark: k.mark}]
		return marked
	}
	_, served := o.entries(services)[keyEntry(k.Key)]
	_, known := o.entries(ports)[keyEntry(k.Key)]
	_, vip := o.entries(addresses)[entry{addr: k.Addr}]
	_, routed := o.routes[k.Addr]
	return served || known || vip || routed
}

// entries returns what a set holds; nil if there is no such set.
func (o observed) entries(k setKind) map[entry]struct{} {
	if o.sets[k] == nil {
		return nil
	}
	return o.sets[k].entries
}

// guards are the sets that have to hold what they hold before a frontend opens, in
// the order in which they grow; they shrink the other way round.
func guards() []setKind {
	return []setKind{addresses, ports, marks, hairpin, allowed, restricted, dropped, dropPod, dropNode, dropOutside,
		refusePod, refuseNode, refuseOutside, kept, keptNode, masqueraded}
}

// doors are the sets that lead packets to virtual servers, apart from services.
func doors() []setKind { return []setKind{arrivals, brought, markPod, markNode, markOutside} }

// before returns the steps that come before the rules: when the family has
// something to do, sets that the rules name and everything in them but the open
// door; when it has not, the end of all traffic.
func before(want target, have observed) steps {
	var s steps
	if !want.wanted() {
		s.dropRoutes(nil, have)
		s.dropInbound(target{}, have)
		s.dropPolicies(target{}, have, true)
		s.dropServers(target{}, have)
		return s
	}
	for k := range setKinds {
		if want.has(k) && !want.partial {
			s.ensureSet(setID{k, want.family}, want.sets[k], have)
		}
	}
	for _, k := range guards() {
		s.grow(setID{k, want.family}, want.sets[k], have.entries(k))
	}
	return s
}

// after returns the steps that come after the rules. Growth goes from the inside
// out: virtual server, real servers, the door (set services), the way to the
// door (the route, the mark). Removal goes back the same way.
func after(want target, have observed) steps {
	var s steps
	if !want.wanted() {
		s.destroySets(have)
		return s
	}
	door := setID{services, want.family}
	s.raiseServers(want, have)
	s.grow(door, want.sets[services], have.entries(services))
	s.raiseInbound(want, have)
	for _, k := range doors() {
		s.grow(setID{k, want.family}, want.sets[k], have.entries(k))
	}
	s.raiseRoutes(want, have)
	s.dropRoutes(want.sets[addresses], have)
	for _, k := range doors() {
		s.reduce(k, want, have)
	}
	s.dropInbound(want, have)
	s.shrink(door, want.sets[services], have.entries(services))
	s.dropServers(want, have)
	for _, k := range slices.Backward(guards()) {
		s.reduce(k, want, have)
	}
	s.destroySpares(have)
	s.report(want.leftOut)
	return s
}

// reduce takes the entries that nobody wants out of a set, or the whole set if it
// is not needed: no rule names it any more.
func (s *steps) reduce(k setKind, want target, have observed) {
	if held := have.sets[k]; held != nil && !want.has(k) {
		s.destroy(setID{k, have.family}, held)
		return
	}
	s.shrink(setID{k, want.family}, want.sets[k], have.entries(k))
}

// ensureSet makes a set, or a larger one in the place of one that is too small.
func (s *steps) ensureSet(id setID, want members, have observed) {
	held := have.sets[id.kind]
	object := "ipset " + id.String()
	switch {
	case held == nil:
		c := capacity(len(want))
		s.add(makeSet{id, c}, dataplane.Change{Op: dataplane.Add, Object: object, Reason: "set missing",
			Lines: []string{"+ " + createLine(id.String(), id, c)}})
	case held.typeName != id.kind.Type():
		s.add(refuse{fmt.Sprintf("set %s has type %s, want %s: it was not made by this program; destroy it (ipset destroy %s) or rename it",
			id, held.typeName, id.kind.Type(), id)},
			dataplane.Change{Op: dataplane.Update, Object: object, Reason: "has type " + held.typeName + ", want " + id.kind.Type()})
	case int(held.capacity) < len(want):
		c := capacity(len(want))
		s.add(enlargeSet{id, c, slices.SortedFunc(maps.Keys(held.entries), entry.compare)},
			dataplane.Change{Op: dataplane.Update, Object: object,
				Reason: fmt.Sprintf("room for %d entries, %d are needed", held.capacity, len(want)),
				Lines:  []string{"- " + createLine(id.String(), id, held.capacity), "+ " + createLine(id.String(), id, c)}})
	}
}

// grow adds the entries that are missing in a set.
func (s *steps) grow(id setID, want members, have map[entry]struct{}) {
	var missing []entry
	for e := range want {
		if _, ok := have[e]; !ok {
			missing = append(missing, e)
		}
	}
	slices.SortFunc(missing, entry.compare)
	addEach(s, missing, func(e entry) step {
		return step{setEntry{id, e, true}, func() dataplane.Change {
			return dataplane.Change{Op: dataplane.Add, For: want[e], Object: fmt.Sprintf("ipset %s entry %s", id, e), Reason: "entry missing",
				Lines: []string{fmt.Sprintf("+ add %s %s", id, e)}}
		}}
	})
}

// shrink removes the entries that nobody wants. One that only had another mark has
// got the one that is wanted when that was added.
func (s *steps) shrink(id setID, want members, have map[entry]struct{}) {
	places := map[entry]bool{}
	if id.kind.mapped() {
		for e := range want {
			places[e.place()] = true
		}
	}
	var unwanted []entry
	for e := range have {
		if _, ok := want[e]; !ok && !places[e.place()] {
			unwanted = append(unwanted, e)
		}
	}
	slices.SortFunc(unwanted, entry.compare)
	addEach(s, unwanted, func(e entry) step {
		return step{setEntry{id, e, false}, func() dataplane.Change {
			return dataplane.Change{Op: dataplane.Remove, Object: fmt.Sprintf("ipset %s entry %s", id, e), Reason: "entry not wanted",
				Lines: []string{fmt.Sprintf("- add %s %s", id, e)}}
		}}
	})
}

// destroySets removes the sets themselves. No rule names them any more.
func (s *steps) destroySets(have observed) {
	for k, held := range have.sets {
		if held != nil {
			s.destroy(setID{setKind(k), have.family}, held)
		}
	}
	s.destroySpares(have)
}

func (s *steps) destroy(id setID, held *heldSet) {
	s.add(destroySet{id.String()}, dataplane.Change{Op: dataplane.Remove, Object: "ipset " + id.String(), Reason: "set not wanted",
		Lines: []string{"- " + createLine(id.String(), id, held.capacity)}})
}

// destroySpares removes what a pass left that was cut short while it made a set
// larger.
func (s *steps) destroySpares(have observed) {
	for _, name := range have.spares {
		s.add(destroySet{name}, dataplane.Change{Op: dataplane.Remove, Object: "ipset " + name, Reason: "left by a pass that was cut short"})
	}
}

// placedRoute is a route of ours to an address.
type placedRoute struct {
	addr netip.Addr
	heldRoute
}

func comparePlaced(a, b placedRoute) int { return a.addr.Compare(b.addr) }

// raiseRoutes makes the addresses local.
func (s *steps) raiseRoutes(want target, have observed) {
	vips, source := want.sets[addresses], have.source
	var missing []netip.Addr
	var wrong []placedRoute
	for e := range vips {
		switch held, exists := have.routes[e.addr]; {
		case !exists && !have.local[e.addr]:
			missing = append(missing, e.addr)
		case exists && (!held.loopback || held.source != source):
			wrong = append(wrong, placedRoute{e.addr, held})
		}
	}
	slices.SortFunc(missing, netip.Addr.Compare)
	slices.SortFunc(wrong, comparePlaced)
	addEach(s, missing, func(a netip.Addr) step {
		return step{raiseRoute{addr: a}, func() dataplane.Change {
			return dataplane.Change{Op: dataplane.Add, Object: "local route " + a.String(), For: vips[entry{addr: a}],
				Reason: fmt.Sprintf("address %s missing", a), Lines: []string{"+ " + routeLine(a, source)}}
		}}
	})
	addEach(s, wrong, func(r placedRoute) step {
		return step{raiseRoute{addr: r.addr, exists: true}, func() dataplane.Change { return r.correction(vips[entry{addr: r.addr}], source) }}
	})
}

// correction tells what is wrong with a route.
func (r placedRoute) correction(service string, source netip.Addr) dataplane.Change {
	c := dataplane.Change{Op: dataplane.Update, Object: "local route " + r.addr.String(), For: service, Lines: []string{"+ " + routeLine(r.addr, source)}}
	if !r.loopback {
		c.Reason = "leads to another link, want lo"
		return c
	}
	c.Reason = fmt.Sprintf("source %s, want %s: local clients would send from a wrong address", addrWord(r.source), addrWord(source))
	c.Lines = append([]string{"- " + routeLine(r.addr, r.source)}, c.Lines...)
	return c
}

// dropRoutes makes addresses that nobody wants no longer local.
func (s *steps) dropRoutes(want members, have observed) {
	var unwanted []placedRoute
	for a, held := range have.routes {
		if _, ok := want[entry{addr: a}]; !ok {
			unwanted = append(unwanted, placedRoute{a, held})
		}
	}
	slices.SortFunc(unwanted, comparePlaced)
	addEach(s, unwanted, func(r placedRoute) step {
		return step{dropRoute{addr: r.addr, priority: r.priority}, func() dataplane.Change {
			return dataplane.Change{Op: dataplane.Remove, Object: "local route " + r.addr.String(),
				Reason: "address not wanted", Lines: []string{"- " + routeLine(r.addr, r.source)}}
		}}
	})
}

// report names what is not served. Applying it is an error, after everything
// else is done: one frontend must not stop the others, nor be forgotten.
func (s *steps) report(left []leftOut) {
	for _, l := range left {
		s.add(refuse{fmt.Sprintf("%s of %s: %s", l.object, l.service, l.reason)},
			dataplane.Change{Op: dataplane.Update, Object: l.object, For: l.service, Reason: "left out: " + l.reason})
	}
}

func addrWord(a netip.Addr) string {
	if !a.IsValid() {
		return "none"
	}
	return a.String()
}

// routeLine is the route as ip(8) takes it, after "ip route add".
func routeLine(a, source netip.Addr) string {
	s := fmt.Sprintf("local %s dev lo table local proto %d", a, routeProtocol)
	if source.IsValid() {
		s += " src " + source.String()
	}
	return s
}

// routeProtocol marks a route as ours.
const routeProtocol = 84
