package ipvs

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// memory is what a follower knows of one family: what its table asks for, and
// what the kernel holds.
type memory struct {
	familyState
	// wanted: the family has something to do.
	wanted bool
	// counts tells for each entry of each set how many Services ask for it.
	counts [setKinds]map[entry]int
	// servers are the virtual servers that the table asks for.
	servers map[serverID]virtualServer
	// known are the frontends of the table.
	known map[serverID]bool
	have  observed
	// foreign are virtual servers of others, by address.
	foreign map[netip.Addr][]serverID
	// leaving are the virtual servers that hold what nobody wants, because it
	// drains.
	leaving map[serverID]bool
}

// remember returns what is known after a whole pass, by family; nil if that is
// not enough to go on from: if what the table asks for is more than, or something
// else than what its Services ask for one by one.
func (b *Backend) remember(table dataplane.Table, sides []*side, used sources) []*memory {
	parts := byService(table)
	var out []*memory
	for _, s := range sides {
		m := &memory{
			familyState: s.familyState, wanted: s.table.wanted(), have: s.have,
			servers: map[serverID]virtualServer{}, known: map[serverID]bool{},
			foreign: map[netip.Addr][]serverID{}, leaving: map[serverID]bool{},
		}
		for k := range m.counts {
			m.counts[k] = map[entry]int{}
		}
		for _, part := range parts {
			m.count(b.part(part, s.familyState), 1)
		}
		if !m.same(s.table) {
			return nil
		}
		m.have.obey(slices.Concat(s.first, s.last, s.end), used)
		for k, held := range m.have.sets {
			if held != nil {
				m.have.sets[k] = held.with(s.want.sets[k])
			}
		}
		m.index(slices.Collect(maps.Keys(m.have.servers)))
		out = append(out, m)
	}
	return out
}

// byService splits a table into those of its Services.
func byService(t dataplane.Table) []dataplane.Table {
	parts := map[string]*dataplane.Table{}
	part := func(origin string) *dataplane.Table {
		name, _, _ := strings.Cut(origin, ":")
		if parts[name] == nil {
			parts[name] = &dataplane.Table{Node: t.Node}
		}
		return parts[name]
	}
	for _, fe := range t.Frontends {
		p := part(fe.Service)
		p.Frontends = append(p.Frontends, fe)
	}
	for _, set := range t.Sets {
		p := part(set.Service)
		p.Sets = append(p.Sets, set)
	}
	var out []dataplane.Table
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		out = append(out, *parts[name])
	}
	return out
}

// part works out what a part of a table asks of a family.
func (b *Backend) part(t dataplane.Table, s familyState) target {
	if !b.programs(s) {
		t = dataplane.Table{}
	}
	out := newPart(grant(t, b.schedulers).ForFamily(s.family), s.family, b.config.Scheduler)
	out.drainLimit = b.config.DrainLimit
	return out
}

// count adds what a Service asks for, or takes it away again.
func (m *memory) count(t target, by int) {
	for k, set := range t.sets {
		for e := range set {
			if m.counts[k][e] += by; m.counts[k][e] <= 0 {
				delete(m.counts[k], e)
			}
		}
	}
	for _, v := range t.servers {
		if by > 0 {
			m.servers[v.serverID] = v
		} else {
			delete(m.servers, v.serverID)
		}
	}
	for id := range t.known {
		if by > 0 {
			m.known[id] = true
		} else {
			delete(m.known, id)
		}
	}
}

// same reports whether a table asks for the same as its Services together.
func (m *memory) same(whole target) bool {
	for k, set := range whole.sets {
		if len(set) != len(m.counts[k]) {
			return false
		}
		for e := range set {
			if m.counts[k][e] == 0 {
				return false
			}
		}
	}
	if len(whole.servers) != len(m.servers) {
		return false
	}
	for _, v := range whole.servers {
		other, ok := m.servers[v.serverID]
		if !ok || v.difference(other) != "" || !slices.Equal(v.real, other.real) {
			return false
		}
	}
	return true
}

// index files what is known of virtual servers, after a change of them.
func (m *memory) index(ids []serverID) {
	for _, id := range ids {
		v, held := m.have.servers[id]
		unwanted := func(r realServer) bool {
			return !slices.ContainsFunc(m.servers[id].real, func(w realServer) bool { return w.addr == r.addr })
		}
		delete(m.leaving, id)
		others := slices.DeleteFunc(m.foreign[id.Addr], func(o serverID) bool { return o == id })
		switch {
		case held && !m.have.owns(id):
			others = append(others, id)
		case slices.ContainsFunc(v.real, unwanted):
			m.leaving[id] = true
		}
		if m.foreign[id.Addr] = others; len(others) == 0 {
			delete(m.foreign, id.Addr)
		}
	}
}

// with returns the set with these members.
func (h *heldSet) with(m members) *heldSet {
	out := &heldSet{typeName: h.typeName, capacity: h.capacity, entries: make(map[entry]struct{}, len(m))}
	for e := range m {
		out.entries[e] = struct{}{}
	}
	return out
}

// obey does to what was observed what steps of the family do to the kernel; but
// the entries of sets are the caller's business, who knows what they are in the
// end.
func (o *observed) obey(s steps, used sources) {
	for _, step := range s {
		switch a := step.action.(type) {
		case makeSet:
			o.sets[a.id.kind] = &heldSet{typeName: a.id.kind.Type(), capacity: a.capacity, entries: map[entry]struct{}{}}
		case enlargeSet:
			o.sets[a.id.kind].capacity = a.capacity
		case destroySet:
			for k := range o.sets {
				if (setID{setKind(k), o.family}).String() == a.name {
					o.sets[k] = nil
				}
			}
		case raiseRoute:
			if a.table == inboundTable {
				o.inbound[a.addr] = heldRoute{loopback: true, priority: o.inbound[a.addr].priority}
				continue
			}
			source, asked := used[o.family]
			if !asked {
				source = o.source
			}
			o.routes[a.addr] = heldRoute{source: source, loopback: true, priority: o.routes[a.addr].priority}
		case dropRoute:
			if a.table == inboundTable {
				delete(o.inbound, a.addr)
				continue
			}
			delete(o.routes, a.addr)
		case changePolicy:
			o.policies = slices.DeleteFunc(slices.Clone(o.policies), func(p policy) bool { return p == a.policy })
			if a.add {
				o.policies = append(o.policies, a.policy)
			}
		default:
			o.obeyServer(a)
		}
	}
}

func (o *observed) obeyServer(a action) {
	switch a := a.(type) {
	case putServer:
		v := a.server
		v.real = o.servers[v.serverID].real
		o.servers[v.serverID] = v
	case dropServer:
		delete(o.servers, a.server.serverID)
	case putReal:
		o.replaceReal(a.server.serverID, a.real.addr, a.real)
	case dropReal:
		o.replaceReal(a.server.serverID, a.real.addr)
	}
}

// replaceReal puts what is given in the place of a real server.
func (o *observed) replaceReal(id serverID, addr netip.AddrPort, with ...realServer) {
	v := o.servers[id]
	is := func(r realServer) bool { return r.addr == addr }
	if slices.ContainsFunc(v.real, is) {
		v.real = slices.DeleteFunc(slices.Clone(v.real), is)
	}
	v.real = append(v.real, with...)
	o.servers[id] = v
}
