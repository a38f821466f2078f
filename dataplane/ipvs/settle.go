package ipvs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// settle returns the target without what does not fit the kernel that it meets.
func (t target) settle(have observed) target {
	others := have.obstacles(t)
	if !t.wanted() || len(others.byID) == 0 && have.lacks == [setKinds]bool{} {
		return t
	}
	out := t
	out.leftOut, out.servers = slices.Clone(t.leftOut), slices.Clone(t.servers)
	for k := range t.sets {
		out.sets[k] = maps.Clone(t.sets[k])
	}
	out.yield(others)
	out.doWithout(have.lacks)
	if !t.partial {
		out.rules = out.ruleset()
	}
	return out
}

// obstacles are the virtual servers of others.
type obstacles struct {
	byID map[serverID]*virtualServer
	// at has one for each address.
	at map[netip.Addr]*virtualServer
}

// obstacles returns those that were observed. What is in every way as it is wanted
// is in nobody's way, and ours: the sets that say so may have been emptied.
func (o observed) obstacles(want target) obstacles {
	others := obstacles{map[serverID]*virtualServer{}, map[netip.Addr]*virtualServer{}}
	var as map[serverID]*virtualServer
	for id, v := range o.servers {
		if o.owns(id) {
			continue
		}
		if as == nil {
			as = want.index()
		}
		if w := as[id]; w == nil || !w.is(*v) {
			others.byID[id], others.at[id.Addr] = v, v
		}
	}
	return others
}

// yield leaves to others the virtual servers that they have, and at addresses
// that would be ours as a whole everything; it reports what stood there.
func (t *target) yield(others obstacles) {
	t.servers = slices.DeleteFunc(t.servers, func(v virtualServer) bool { return t.blocked(others, v.owner()) != nil })
	for k := setKinds; k > 0; k-- { // addresses last: they say what is ours as a whole
		kind := k % setKinds
		if kind == hairpin || kind == addresses {
			continue
		}
		for _, e := range slices.SortedFunc(maps.Keys(t.sets[kind]), entry.compare) {
			if v := t.blocked(others, e); v != nil {
				if kind == ports {
					t.leaveTo(*v, "frontend "+e.key().String(), t.sets[kind][e])
				}
				delete(t.sets[kind], e)
			}
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(t.sets[addresses]), entry.compare) {
		if v := t.blocked(others, e); v != nil {
			t.leaveTo(*v, "address "+e.addr.String(), t.sets[addresses][e])
			delete(t.sets[addresses], e)
		}
	}
}

// blocked returns what stands in the way of an entry of a set, if anything does.
func (t *target) blocked(others obstacles, e entry) *virtualServer {
	if e.mark != 0 {
		id := serverID{dataplane.Key{Addr: unspecified(t.family)}, e.mark}
		if v, ok := others.byID[id]; ok || e.port == 0 {
			return v
		}
	}
	if _, whole := t.sets[addresses][entry{addr: e.addr}]; whole {
		return others.at[e.addr]
	}
	return others.byID[serverID{Key: e.key()}]
}

// leaveTo notes what is left to a virtual server of somebody else.
func (t *target) leaveTo(v virtualServer, object, service string) {
	t.leftOut = append(t.leftOut, leftOut{object, service, fmt.Sprintf(
		"%s is there and is not ours, so it is left alone; delete it (ipvsadm %s) or give the Service another address or port",
		v.object(), v.line("D"))})
}

// doWithout takes back what needs more than the kernel can: nobody is let in where
// it cannot be told who may, all sources share the endpoints where it cannot be
// told which have others, and what cannot be brought in goes where it would.
func (t *target) doWithout(lacks [setKinds]bool) {
	if lacks[allowed] {
		t.leaveEach(restricted, "nobody may use it, because its source ranges need more: "+lacking(allowed))
		for e, service := range t.sets[restricted] {
			t.sets[dropped][e] = service
			delete(t.sets[services], e)
		}
		t.servers = slices.DeleteFunc(t.servers, func(v virtualServer) bool {
			_, is := t.sets[restricted][v.owner()]
			return is
		})
		t.sets[restricted], t.sets[allowed] = nil, nil
	}
	if lacks[brought] {
		t.leaveEach(arrivals, "only the node itself reaches it, because the kernel has no routing policy (CONFIG_IP_MULTIPLE_TABLES); use another backend")
		t.sets[brought], t.sets[arrivals] = nil, nil
	}
	if !lacks[marks] {
		return
	}
	for _, k := range []setKind{markPod, markNode, markOutside} {
		t.leaveEach(k, "all its clients share the same endpoints, because to tell them apart needs more: "+lacking(marks))
		t.sets[k] = nil
	}
	t.servers = slices.DeleteFunc(t.servers, func(v virtualServer) bool { return v.mark != 0 })
	t.sets[marks] = nil
}

// lacking says what the kernel does not have for a set, and what to do.
func lacking(k setKind) string {
	return fmt.Sprintf("the kernel has no sets of type %s (module ip_set_hash); load it, or use another backend", k.Type())
}

// leaveEach notes something that cannot be done for each entry of a set.
func (t *target) leaveEach(k setKind, reason string) {
	for _, e := range slices.SortedFunc(maps.Keys(t.sets[k]), entry.compare) {
		object := "frontend " + e.key().String()
		if e.port == 0 {
			object = "address " + e.addr.String()
		}
		t.leftOut = append(t.leftOut, leftOut{object, t.sets[k][e], reason})
	}
}

// unspecified is the address of a family that stands for none.
func unspecified(f dataplane.Family) netip.Addr {
	if f == dataplane.IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}
