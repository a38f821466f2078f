package ipvs

import (
	"context"
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
	servers map[serverID]virtualServer
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
	// loopback: its link is lo.
	loopback bool
	// priority is the metric, which IPv6 needs to delete the route.
	priority int
}

// step is one change of one kernel object: what people are told, and what is
// done. Steps are values until they are applied.
type step struct {
	// told is what people are told; nil if the action tells it.
	told   *dataplane.Change
	action action
}

// teller is an action that tells what it changes: where there are very many, a text
// for each would take more room than all else.
type teller interface{ tell() dataplane.Change }

// change is what people are told.
func (s step) change() dataplane.Change {
	if s.told != nil {
		return *s.told
	}
	return s.action.(teller).tell()
}

// action is one call, or a few, that change the kernel.
type action interface {
	do(context.Context, *kernel) error
}

// steps collects the changes of one phase.
type steps []step

func (s *steps) add(a action, c dataplane.Change) { *s = append(*s, step{&c, a}) }

// addMissing adds what the kernel lacks, by an action that tells it.
func (s *steps) addMissing(a interface {
	action
	teller
}) {
	*s = append(*s, step{action: a})
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
	for _, e := range slices.SortedFunc(maps.Keys(want), entry.compare) {
		if _, ok := have[e]; ok {
			continue
		}
		s.add(setEntry{id, e, true}, dataplane.Change{Op: dataplane.Add, For: want[e],
			Object: fmt.Sprintf("ipset %s entry %s", id, e), Reason: "entry missing",
			Lines: []string{fmt.Sprintf("+ add %s %s", id, e)}})
	}
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
	for _, e := range slices.SortedFunc(maps.Keys(have), entry.compare) {
		if _, ok := want[e]; ok || places[e.place()] {
			continue
		}
		s.add(setEntry{id, e, false}, dataplane.Change{Op: dataplane.Remove,
			Object: fmt.Sprintf("ipset %s entry %s", id, e), Reason: "entry not wanted",
			Lines: []string{fmt.Sprintf("- add %s %s", id, e)}})
	}
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

// raiseRoutes makes the addresses local.
func (s *steps) raiseRoutes(want target, have observed) {
	vips := want.sets[addresses]
	for _, e := range slices.SortedFunc(maps.Keys(vips), entry.compare) {
		held, exists := have.routes[e.addr]
		c := dataplane.Change{Op: dataplane.Add, Object: "local route " + e.addr.String(), For: vips[e],
			Reason: fmt.Sprintf("address %s missing", e.addr), Lines: []string{"+ " + routeLine(e.addr, have.source)}}
		switch {
		case !exists && have.local[e.addr]:
			continue
		case !exists:
		case !held.loopback:
			c.Op, c.Reason = dataplane.Update, "leads to another link, want lo"
		case held.source != have.source:
			c.Op, c.Reason = dataplane.Update, fmt.Sprintf("source %s, want %s: local clients would send from a wrong address",
				addrWord(held.source), addrWord(have.source))
			c.Lines = append([]string{"- " + routeLine(e.addr, held.source)}, c.Lines...)
		default:
			continue
		}
		s.add(raiseRoute{addr: e.addr, exists: exists}, c)
	}
}

// dropRoutes makes addresses that nobody wants no longer local.
func (s *steps) dropRoutes(want members, have observed) {
	for _, a := range slices.SortedFunc(maps.Keys(have.routes), netip.Addr.Compare) {
		if _, ok := want[entry{addr: a}]; ok {
			continue
		}
		s.add(dropRoute{addr: a, priority: have.routes[a].priority}, dataplane.Change{Op: dataplane.Remove, Object: "local route " + a.String(),
			Reason: "address not wanted", Lines: []string{"- " + routeLine(a, have.routes[a].source)}})
	}
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
