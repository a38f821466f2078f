package ipvs

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// change is what a delta does in one family. Its side is the part of what is
// wanted and held that the delta touches, and nothing else.
type change struct {
	*side
	memory *memory
	// gone and come are what the Services of the delta asked for, and ask for.
	gone, come []target
	// counts are by how much the delta changes the counts of the memory, of every
	// entry that it touches: also by nothing.
	counts [setKinds]map[entry]int
	// servers are the virtual servers that it touches.
	servers map[serverID]bool
}

// changes works out a delta in each family. It looks in the kernel for the real
// servers that leave, if there are any.
func (b *Backend) changes(ctx context.Context, known []*memory, d dataplane.Delta) ([]*change, error) {
	var out []*change
	for _, m := range known {
		c := &change{memory: m, side: &side{familyState: m.familyState, table: b.part(d.After, m.familyState)}}
		for _, t := range byService(d.Before) {
			c.gone = append(c.gone, b.part(t, m.familyState))
		}
		for _, t := range byService(d.After) {
			c.come = append(c.come, b.part(t, m.familyState))
		}
		c.tally()
		if why := c.beyond(); why != "" {
			return nil, fmt.Errorf("%s: %s: %w", m.family, why, dataplane.ErrForgotten)
		}
		c.cut()
		c.have.now = b.config.Clock()
		out = append(out, c)
	}
	if err := refresh(ctx, out); err != nil {
		return nil, err
	}
	for _, c := range out {
		c.want = c.table.settle(c.have).keepMarks(c.have)
		if c.lastMark() {
			return nil, fmt.Errorf("%s: the last mark goes: %w", c.family, dataplane.ErrForgotten)
		}
	}
	return out, nil
}

// tally works out which entries and virtual servers the delta touches.
func (c *change) tally() {
	for k := range c.counts {
		c.counts[k] = map[entry]int{}
	}
	c.servers = map[serverID]bool{}
	take := func(parts []target, by int) {
		for _, t := range parts {
			for k, set := range t.sets {
				for e := range set {
					c.counts[k][e] += by
				}
			}
			for _, v := range t.servers {
				c.servers[v.serverID] = true
			}
			for id := range t.known {
				c.servers[id] = true
			}
		}
	}
	take(c.gone, -1)
	take(c.come, 1)
}

// beyond says why the delta takes a whole pass; empty if it does not. Rules stand
// for sets that have members and for families that have something to do, and a
// full set has to be replaced by a larger one.
func (c *change) beyond() string {
	m := c.memory
	for k, changed := range c.counts {
		size := m.asked[k]
		for e, by := range changed {
			switch old := m.count(setKind(k), e); {
			case old+by < 0:
				return fmt.Sprintf("entry %s of set %s was not known", e, setID{setKind(k), m.family})
			case old == 0 && by > 0:
				size++
			case old > 0 && old+by == 0:
				size--
			}
		}
		id, held := setID{setKind(k), m.family}, m.have.sets[k]
		switch kind := setKind(k); {
		case (size == 0) != (m.asked[k] == 0) && (!kind.traits().always || kind == addresses && len(c.table.node.ServiceRanges) == 0):
			return "set " + id.String() + " comes or goes"
		case size > 0 && (held == nil || size > int(held.capacity)):
			return "set " + id.String() + " is too small"
		}
	}
	for e, by := range c.counts[ports] {
		// A NodePort stands for addresses that another frontend may have for itself.
		if old := m.count(ports, e); max(old, old+by) > 1 {
			return "who serves " + e.key().String() + " depends on other Services"
		}
	}
	return c.clash()
}

// lastMark reports whether a virtual server for a mark that only drained goes,
// where no frontend gives a mark: the set of marks goes with it.
func (c *change) lastMark() bool {
	if c.memory.asked[marks] > 0 {
		return false
	}
	for e := range c.have.entries(marks) {
		if _, stays := c.want.sets[marks][e]; !stays {
			return true
		}
	}
	return false
}

// clash names a virtual server that several Services ask for: the numbers of
// marks are drawn.
func (c *change) clash() string {
	left, come := map[serverID]bool{}, map[serverID]bool{}
	for _, t := range c.gone {
		for _, v := range t.servers {
			left[v.serverID] = true
		}
	}
	for _, t := range c.come {
		for _, v := range t.servers {
			if _, taken := c.memory.servers[v.serverID]; come[v.serverID] || taken && !left[v.serverID] {
				return v.object() + " would serve several Services"
			}
			come[v.serverID] = true
		}
	}
	return ""
}

// cut cuts what is touched out of what the memory knows.
func (c *change) cut() {
	m := c.memory
	c.table.partial = m.wanted
	c.have = observed{family: m.family, whole: &m.have, local: m.have.local, source: m.have.source,
		routes: map[netip.Addr]heldRoute{}, inbound: map[netip.Addr]heldRoute{}, servers: map[serverID]*virtualServer{}}
	for id := range m.leaving {
		if id.mark != 0 && m.count(marks, m.have.servers[id].owner()) == 0 {
			c.counts[marks][m.have.servers[id].owner()] += 0 // its mark goes with it
		}
	}
	for k := range c.counts {
		c.cutSet(setKind(k))
	}
	c.cutPlaces()
	for id := range c.servers {
		if v, held := m.have.servers[id]; held {
			c.have.servers[id] = v
		}
	}
	c.cutLeaving()
}

// cutPlaces cuts out the routes to the addresses that are touched, and the virtual
// servers that others have there.
func (c *change) cutPlaces() {
	m := c.memory
	for _, k := range []setKind{addresses, ports, arrivals, marks} {
		for e := range c.counts[k] {
			if r, held := m.have.routes[e.addr]; held && k == addresses {
				c.have.routes[e.addr] = r
			}
			if r, held := m.have.inbound[e.addr]; held && k == arrivals {
				c.have.inbound[e.addr] = r
			}
			for _, id := range m.foreign[e.addr] {
				c.have.servers[id] = m.have.servers[id]
			}
		}
	}
}

// cutLeaving cuts out what drains: it is looked after, whatever the delta is about.
func (c *change) cutLeaving() {
	m := c.memory
	for _, id := range slices.SortedFunc(maps.Keys(m.leaving), serverID.compare) {
		if c.servers[id] {
			continue
		}
		c.have.servers[id] = m.have.servers[id]
		if v, ok := m.servers[id]; ok {
			c.table.servers = append(c.table.servers, *v)
		}
		c.table.known[id] = m.known[id]
		if dialled := (serverID{Key: m.have.servers[id].dialled}); id.mark != 0 {
			c.table.known[dialled] = m.known[dialled]
		}
	}
}

// cutSet cuts the entries that are touched out of one set.
func (c *change) cutSet(k setKind) {
	held := c.memory.have.sets[k]
	if held == nil {
		return
	}
	cut := &heldSet{typeName: held.typeName, capacity: held.capacity, entries: map[entry]struct{}{}}
	c.have.sets[k] = cut
	for e, by := range c.counts[k] {
		if _, ok := held.entries[e]; ok {
			cut.entries[e] = struct{}{}
		}
		if _, asked := c.table.sets[k][e]; !asked && c.memory.count(k, e)+by > 0 {
			c.table.sets[k][e] = "" // some other Service asks for it
		}
	}
}

// refresh reads the real servers anew of those virtual servers where some are
// not wanted any more: what becomes of them depends on their connections.
func refresh(ctx context.Context, changes []*change) error {
	var k *kernel
	for _, c := range changes {
		for _, id := range c.stale() {
			if k == nil {
				var err error
				if k, err = openRequests(); err != nil {
					return err
				}
				defer k.close()
			}
			v := *c.have.servers[id]
			var err error
			if v.real, err = k.readReal(ctx, id, nil); err != nil {
				return err
			}
			c.have.servers[id] = &v
		}
	}
	return nil
}

// stale lists the virtual servers that hold what may drain.
func (c *change) stale() []serverID {
	ids := map[serverID]bool{}
	unwanted(c.table, c.have, func(v virtualServer, _ realServer) {
		if c.table.drains(v) {
			ids[v.serverID] = true
		}
	})
	return slices.SortedFunc(maps.Keys(ids), serverID.compare)
}

// commit brings the memory up to date, after the kernel.
func (c *change) commit(used sources) {
	m := c.memory
	m.replace(c.gone, c.come)
	for id, v := range c.have.servers {
		m.have.servers[id] = v // with the connections as they were read
	}
	m.have.obey(slices.Concat(c.first, c.last), used)
	for k, changed := range c.counts {
		for e, by := range changed {
			_, held := c.want.sets[k][e]
			m.set(setKind(k), e, held, m.count(setKind(k), e)+by)
		}
	}
	ids := maps.Clone(c.servers)
	for id := range c.have.servers {
		ids[id] = true
	}
	m.index(maps.Keys(ids))
}
