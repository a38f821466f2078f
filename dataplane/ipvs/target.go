package ipvs

import (
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// target is what the kernel is to hold for one family. The routes follow from
// the sets: each of addresses has one in table local, each of arrivals one in a
// table of ours.
type target struct {
	family  dataplane.Family
	sets    [setKinds]members
	servers []virtualServer
	rules   xtables.Ruleset
	// node and classes are what the rules depend on.
	node    dataplane.Node
	classes classes
	leftOut []leftOut
	// remarks are for people: what the backend can never do.
	remarks []string
	// shared names all Services that ask for an entry, where there are several.
	shared [setKinds]map[entry][]string
	// entangled: it is not what the Services ask for one by one.
	entangled bool
	// known are the frontends of the table, served or not.
	known map[serverID]bool
	// partial: it is the part that a change touches of one that is wanted.
	partial bool
	// leaving: another backend is in use, and this is what connections still need.
	leaving bool
	// drainLimit is how long a real server may drain; none does if it is zero.
	drainLimit time.Duration
}

// leftOut is a frontend that cannot be served, and why.
type leftOut struct {
	object, service, reason string
}

// wanted reports whether the family has anything to do: a node without IPv6
// Services needs no IPv6 rules.
func (t target) wanted() bool {
	return t.partial || len(t.servers)+len(t.sets[addresses])+len(t.sets[ports])+len(t.node.ServiceRanges) > 0
}

// newTarget works out the target of one family. The table may have both.
func newTarget(table dataplane.Table, family dataplane.Family, scheduler string) target {
	part := table.ForFamily(family)
	t := newPart(part, family, scheduler)
	t.rules = xtables.Ruleset{Family: family}
	if t.wanted() {
		t.rules = t.ruleset()
	}
	return t
}

// newPart works out what the frontends of one family want, without the rules,
// which all have in common.
func newPart(part dataplane.Table, family dataplane.Family, scheduler string) target {
	t := target{family: family, node: part.Node, classes: classesOf(part.Node)}
	for k := range t.sets {
		t.sets[k] = members{}
	}
	b := builder{target: &t, table: part, scheduler: scheduler, marking: marking{part.Node.Marks()},
		numbers: map[uint32]string{}, marked: map[uint32]bool{}, used: map[string]bool{}}
	t.known = make(map[serverID]bool, len(part.Frontends))
	t.servers = make([]virtualServer, 0, len(part.Frontends))
	b.expand(func(fe dataplane.Frontend) {
		t.known[serverID{Key: fe.Key}] = true
		b.frontend(fe)
	})
	b.hairpin()
	return t
}

// index returns the virtual servers by what tells them apart.
func (t target) index() map[serverID]*virtualServer {
	out := make(map[serverID]*virtualServer, len(t.servers))
	for i := range t.servers {
		out[t.servers[i].serverID] = &t.servers[i]
	}
	return out
}

// has reports whether the family needs a set. Where the target is a part, it does
// not know: what there is is needed.
func (t target) has(k setKind) bool {
	return t.partial || k.traits().always && !t.leaving || len(t.sets[k]) > 0
}
