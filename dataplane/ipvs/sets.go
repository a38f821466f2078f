package ipvs

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
)

// setKind is one of the sets that each family has.
type setKind uint8

const (
	// services: address, protocol and port of every virtual server that is
	// dialled. The last to grow and the first to shrink: what is not in it is
	// refused.
	services setKind = iota
	// addresses: every address that we make local. The first to grow and the
	// last to shrink: it is the mark of ownership.
	addresses
	// ports: frontends at addresses that are not ours as a whole: those of the
	// node, and all outside of the ranges of Services. It is to them what
	// addresses is to the others.
	ports
	// brought: those of them that are not NodePorts. Whether or not the node has
	// their addresses, their packets are brought in, see deliver.go.
	brought
	// arrivals: their addresses.
	arrivals
	// hairpin: the local endpoints, each with itself as the source.
	hairpin
	// dropped: frontends whose packets are to vanish.
	dropped
	// dropPod, dropNode, dropOutside: frontends that serve others, and where the
	// packets of one class of sources are to vanish.
	dropPod
	dropNode
	dropOutside
	// refusePod, refuseNode, refuseOutside: the same, refused.
	refusePod
	refuseNode
	refuseOutside
	// kept: frontends whose clients from outside keep their source address.
	kept
	// keptNode: frontends to which the node's own processes keep theirs.
	keptNode
	// masqueraded: frontends to which Pods lose theirs.
	masqueraded
	// restricted: frontends that only some sources may use.
	restricted
	// allowed: those frontends, each with a range of sources that may.
	allowed
	// marks: the marks that choose a virtual server, each with an address whose
	// packets get it. It is the mark of ownership of those servers.
	marks
	// markPod, markNode, markOutside: frontends where one class of sources is
	// sent to other endpoints than the rest, with the mark that chooses them.
	markPod
	markNode
	markOutside
	setKinds
)

// traits are what sets of one kind have in common.
type traits struct {
	// name is the middle of the name in the kernel.
	name string
	// typeName is the kernel's name of the set's type.
	typeName string
	// fields are what the match takes from a packet.
	fields string
	// always: it is there even without members.
	always bool
}

func (k setKind) traits() traits {
	const address, port, source, net = "hash:ip", "hash:ip,port", "hash:ip,port,ip", "hash:ip,port,net"
	return [setKinds]traits{
		services:    {"VS", port, "dst,dst", true},
		addresses:   {"VIP", address, "dst", true},
		ports:       {"PORT", port, "dst,dst", false},
		brought:     {"BRING", port, "dst,dst", false},
		arrivals:    {"IN", address, "dst", false},
		hairpin:     {"HAIRPIN", source, "dst,dst,src", true},
		dropped:     {"DROP", port, "dst,dst", false},
		dropPod:     {"DROP-POD", port, "dst,dst", false},
		dropNode:    {"DROP-NODE", port, "dst,dst", false},
		dropOutside: {"DROP-OUT", port, "dst,dst", false},

		refusePod:     {"REFUSE-POD", port, "dst,dst", false},
		refuseNode:    {"REFUSE-NODE", port, "dst,dst", false},
		refuseOutside: {"REFUSE-OUT", port, "dst,dst", false},

		kept:        {"KEEP", port, "dst,dst", true},
		keptNode:    {"KEEP-NODE", port, "dst,dst", false},
		masqueraded: {"MASQ", port, "dst,dst", true},
		restricted:  {"LIMIT", port, "dst,dst", false},
		allowed:     {"ALLOW", net, "dst,dst,src", false},
		marks:       {"MARK", "hash:ip,mark", "dst,dst", false},
		markPod:     {"MARK-POD", port, "dst,dst", false},
		markNode:    {"MARK-NODE", port, "dst,dst", false},
		markOutside: {"MARK-OUT", port, "dst,dst", false},
	}[k]
}

// mapped reports whether entries of the set carry a mark that packets get.
func (k setKind) mapped() bool { return k == markPod || k == markNode || k == markOutside }

// setID names one set.
type setID struct {
	kind   setKind
	family dataplane.Family
}

// String returns the name in the kernel: "TOY-VS-4".
func (s setID) String() string { return fmt.Sprintf("TOY-%s-%d", s.kind.traits().name, s.family) }

// spare returns the name of the set that is filled in the place of one that has
// become too small, and then swapped with it.
func (s setID) spare() string { return s.String() + "-NEXT" }

// Type returns the kernel's name of the set's type.
func (k setKind) Type() string { return k.traits().typeName }

// entry is a member of a set. The fields that the type of the set does not have
// are zero.
type entry struct {
	addr, source netip.Addr
	// mark is, in an entry with a port, what packets get; else a part of what
	// tells entries apart.
	mark     uint32
	port     uint16
	protocol dataplane.Protocol
	// bits is the length of the range of sources; zero where source is one
	// address.
	bits uint8
}

// String returns the entry as ipset(8) takes it: "10.244.0.5,tcp:80,10.244.0.5".
func (e entry) String() string {
	s := e.addr.String()
	if e.port != 0 {
		s += fmt.Sprintf(",%s:%d", e.protocol, e.port)
	}
	if e.source.IsValid() {
		s += "," + e.source.String()
	}
	if e.bits != 0 {
		s += fmt.Sprintf("/%d", e.bits)
	}
	switch {
	case e.mark != 0 && e.port != 0:
		s += fmt.Sprintf(" skbmark %#x", e.mark)
	case e.mark != 0:
		s += fmt.Sprintf(",%#x", e.mark)
	}
	return s
}

// compare orders entries by address, protocol, port, then by the rest.
func (e entry) compare(o entry) int {
	return cmp.Or(e.key().Compare(o.key()), e.source.Compare(o.source), cmp.Compare(e.bits, o.bits), cmp.Compare(e.mark, o.mark))
}

// place is what no two entries of a set have in common. What packets get is not
// part of it.
func (e entry) place() entry {
	if e.port != 0 {
		e.mark = 0
	}
	return e
}

func (e entry) key() dataplane.Key {
	return dataplane.Key{Addr: e.addr, Protocol: e.protocol, Port: e.port}
}

func keyEntry(k dataplane.Key) entry {
	return entry{addr: k.Addr, protocol: k.Protocol, port: k.Port}
}

// members are the entries wanted in a set, each with the Service it is for.
type members map[entry]string

// minimumCapacity is what ipset(8) takes when it is not told.
const minimumCapacity = 65536

// capacity is the maxelem of a set for so many entries: a power of two, so that
// a set is not made anew whenever a Service comes. An empty place costs nothing;
// the kernel grows the hash as entries come.
func capacity(entries int) uint32 {
	c := uint32(minimumCapacity)
	for int(c) < entries {
		c *= 2
	}
	return c
}

// familyWord is how ipset(8) calls a family.
func familyWord(f dataplane.Family) string {
	if f == dataplane.IPv6 {
		return "inet6"
	}
	return "inet"
}

func createLine(name string, id setID, max uint32) string {
	s := fmt.Sprintf("create %s %s family %s maxelem %d", name, id.kind.Type(), familyWord(id.family), max)
	if id.kind.mapped() {
		s += " skbinfo"
	}
	return s
}
