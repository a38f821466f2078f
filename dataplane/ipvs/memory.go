package ipvs

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// memory is what a follower knows of one family: what its table asks for, and
// what the kernel holds. Mostly that is the same, and then it is there once: virtual
// servers are shared, and of entries only what is special about them is noted.
type memory struct {
	familyState
	// wanted: the family has something to do.
	wanted bool
	have   observed
	// asked is how many entries of each set any Service asks for.
	asked [setKinds]int
	// special tells how many Services ask for an entry, where that is not one for an
	// entry that is held, and none for another.
	special [setKinds]map[entry]int
	// servers are the virtual servers that the table asks for.
	servers map[serverID]*virtualServer
	// known are the frontends of the table.
	known map[serverID]bool
	// foreign are virtual servers of others, by address.
	foreign map[netip.Addr][]serverID
	// leaving are the virtual servers that hold what nobody wants, because it
	// drains.
	leaving map[serverID]bool
}

// remember returns what is known after a whole pass, by family; nil if that is
// not enough to go on from: if what the table asks for is more than, or something
// else than what its Services ask for one by one. The sides are not to be used
// after it.
func remember(sides []*side, used sources) []*memory {
	var out []*memory
	for _, s := range sides {
		if s.table.entangled {
			return nil
		}
		m := &memory{
			familyState: s.familyState, wanted: s.table.wanted(), have: s.have, servers: s.table.index(), known: s.table.known,
			foreign: map[netip.Addr][]serverID{}, leaving: map[serverID]bool{},
		}
		m.have.obey(slices.Concat(s.first, s.last, s.end), used)
		for k, held := range m.have.sets {
			if held != nil {
				m.have.sets[k] = held.with(s.want.sets[k])
			}
			m.note(setKind(k), s.table)
		}
		m.index(maps.Keys(m.have.servers))
		out = append(out, m)
	}
	return out
}

// note notes what a table asks of a set.
func (m *memory) note(k setKind, whole target) {
	m.special[k] = map[entry]int{}
	m.asked[k] = len(whole.sets[k])
	for e := range whole.sets[k] {
		m.specify(k, e, max(1, len(whole.shared[k][e])))
	}
	for e := range m.have.entries(k) {
		if _, asked := whole.sets[k][e]; !asked {
			m.specify(k, e, 0)
		}
	}
}

// specify notes how many Services ask for an entry, if that is special.
func (m *memory) specify(k setKind, e entry, n int) {
	delete(m.special[k], e)
	if n != m.usual(k, e) {
		m.special[k][e] = n
	}
}

// usual is how many Services ask for an entry about which nothing is special.
func (m *memory) usual(k setKind, e entry) int {
	if _, held := m.have.entries(k)[e]; held {
		return 1
	}
	return 0
}

// count returns how many Services ask for an entry.
func (m *memory) count(k setKind, e entry) int {
	if n, special := m.special[k][e]; special {
		return n
	}
	return m.usual(k, e)
}

// byService splits a table into those of its Services.
func byService(t dataplane.Table) []dataplane.Table {
	parts := map[string]*dataplane.Table{}
	part := func(origin string) *dataplane.Table {
		name := serviceOf(origin)
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

// replace takes away the virtual servers that Services asked for, and adds those
// that they ask for now.
func (m *memory) replace(gone, come []target) {
	for _, t := range gone {
		for _, v := range t.servers {
			delete(m.servers, v.serverID)
		}
		for id := range t.known {
			delete(m.known, id)
		}
	}
	for _, t := range come {
		maps.Copy(m.servers, t.index())
		maps.Copy(m.known, t.known)
	}
}

// set notes that an entry is held, or not, and by how many Services it is asked for.
func (m *memory) set(k setKind, e entry, held bool, n int) {
	if before := m.count(k, e); before == 0 && n > 0 {
		m.asked[k]++
	} else if before > 0 && n == 0 {
		m.asked[k]--
	}
	if set := m.have.sets[k]; set != nil && held {
		set.entries[e] = struct{}{}
	} else if set != nil {
		delete(set.entries, e)
	}
	m.specify(k, e, n)
}

// index files what is known of virtual servers, after a change of them.
func (m *memory) index(ids iter.Seq[serverID]) {
	for id := range ids {
		held, wanted := m.have.servers[id], m.servers[id]
		delete(m.leaving, id)
		others := slices.DeleteFunc(m.foreign[id.Addr], func(o serverID) bool { return o == id })
		switch {
		case held == nil:
		case !m.have.owns(id):
			others = append(others, id)
		case wanted != nil && wanted.is(*held):
			m.have.servers[id] = wanted
		case held.holdsMore(wanted):
			m.leaving[id] = true
		}
		if m.foreign[id.Addr] = others; len(others) == 0 {
			delete(m.foreign, id.Addr)
		}
	}
}

// holdsMore reports whether a virtual server has a real server that is not wanted.
func (v *virtualServer) holdsMore(wanted *virtualServer) bool {
	return slices.ContainsFunc(v.real, func(r realServer) bool {
		return wanted == nil || !slices.ContainsFunc(wanted.real, func(w realServer) bool { return w.addr == r.addr })
	})
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
	for _, row := range s {
		switch a := row.at(0).action.(type) {
		case putServer:
			if !a.exists { // all of its real servers are in the same row
				o.servers[a.server.serverID] = a.server
				continue
			}
		case setEntry:
			continue
		}
		for i := range row.n {
			o.obeyStep(row.at(i).action, used)
		}
	}
}

func (o *observed) obeyStep(a action, used sources) {
	switch a := a.(type) {
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
		o.obeyRoute(a, used)
	case dropRoute:
		delete(o.table(a.table), a.addr)
	case changePolicy:
		o.policies = slices.DeleteFunc(slices.Clone(o.policies), func(p policy) bool { return p == a.policy })
		if a.add {
			o.policies = append(o.policies, a.policy)
		}
	default:
		o.obeyServer(a)
	}
}

// table returns the routes of a table, by the number that actions give it.
func (o *observed) table(number uint32) map[netip.Addr]heldRoute {
	if number == inboundTable {
		return o.inbound
	}
	return o.routes
}

func (o *observed) obeyRoute(a raiseRoute, used sources) {
	routes := o.table(a.table)
	r := heldRoute{loopback: true, priority: routes[a.addr].priority}
	if a.table != inboundTable {
		r.source = o.source
		if source, asked := used[o.family]; asked {
			r.source = source
		}
	}
	routes[a.addr] = r
}

func (o *observed) obeyServer(a action) {
	switch a := a.(type) {
	case putServer:
		v := *a.server
		v.real = o.servers[v.serverID].real
		o.servers[v.serverID] = &v
	case dropServer:
		delete(o.servers, a.server.serverID)
	case putReal:
		o.replaceReal(a.server.serverID, a.real.addr, a.real)
	case dropReal:
		o.replaceReal(a.server.serverID, a.real.addr)
	}
}

// replaceReal puts what is given in the place of a real server.
func (o *observed) replaceReal(id serverID, addr spot, with ...realServer) {
	v := *o.servers[id]
	is := func(r realServer) bool { return r.addr == addr }
	if slices.ContainsFunc(v.real, is) {
		v.real = slices.DeleteFunc(slices.Clone(v.real), is)
	}
	v.real = slices.Concat(v.real, with)
	o.servers[id] = &v
}
