package nftables

import (
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// what is a kind of thing that is counted.
type what uint8

const (
	// members are the elements of the set called name, without which it is not
	// there; those of the set of allowed sources are the frontends that ask it.
	members what = iota
	// class are the frontends with n rows, in alternative alt.
	class
	// someFrontend are all frontends, apartFrontend those that treat the node
	// not as Pods.
	someFrontend
	apartFrontend
	// dialledAddress are the frontends on addr, which is in a Service range.
	dialledAddress
	// localEndpoint are the endpoints with addr, on this node.
	localEndpoint
	// nodePort are the NodePorts of protocol alt and port n.
	nodePort
	// ownPort are the frontends of protocol alt and port n on addr of the node,
	// which is no NodePort's there then.
	ownPort
	// clientSet is the set of clients called name.
	clientSet
)

// counted is a thing that is counted. Which fields there are is said by what.
type counted struct {
	what what
	alt  uint8
	n    uint32
	name string
	addr netip.Addr
}

// tally says how often things are there. None is there less than once.
type tally map[counted]int

// add counts some more, or less.
func (t tally) add(c counted, n int) {
	if n += t[c]; n != 0 {
		t[c] = n
	} else {
		delete(t, c)
	}
}

// sum adds the counts of another tally.
func (t tally) sum(o tally) {
	for c, n := range o {
		t.add(c, n)
	}
}

// tallies count what frontends and sets of several Services have in common.
type tallies struct {
	// shape is what the chains that they share depend on.
	shape tally
	// elements is what elements, and sets of single Services, depend on.
	elements tally
}

// countFrontend counts a frontend as the table has it: a NodePort once.
func (b *builder) countFrontend(fe *dataplane.Frontend) {
	b.count.shape.add(counted{what: someFrontend}, b.sign)
	if setApart(*fe) {
		b.count.shape.add(counted{what: apartFrontend}, b.sign)
	}
	door := doorOf(fe)
	if fe.Kind != dataplane.NodePort {
		if !slices.Contains(b.node.Addrs, fe.Addr) {
			return
		}
		door.what, door.addr = ownPort, fe.Addr
	}
	b.count.elements.add(door, b.sign)
}

// countMembers counts what the sets hold, and everything about the frontends.
func (b *builder) countMembers() {
	for i := range b.table.Frontends {
		b.countFrontend(&b.table.Frontends[i])
	}
	for name, s := range b.sets {
		switch {
		case s.kind == clients:
			b.count.elements.add(counted{what: clientSet, name: name}, b.sign)
		case name == allowedSet:
			b.count.shape.add(counted{what: members, name: name}, b.sign*b.sets[restrictedSet].len())
		case !s.alwaysThere():
			b.count.shape.add(counted{what: members, name: name}, b.sign*s.len())
		}
	}
}

// doorOf is how a NodePort is counted, and what an address and port of the node
// may belong to.
func doorOf(fe *dataplane.Frontend) counted {
	return counted{what: nodePort, alt: uint8(fe.Protocol), n: uint32(fe.Port)}
}

// alwaysThere reports whether a set is there also without elements.
func (s set) alwaysThere() bool {
	switch s.name {
	case frontendsSet, clusterIPsSet, endpointsMap, hairpinSet:
		return true
	}
	return false
}
