package ipvs

import (
	"fmt"
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
)

// setKind is one of the sets that each family has.
type setKind uint8

const (
	// services: address, protocol and port of every virtual server. The last to
	// grow and the first to shrink: what is not in it is refused.
	services setKind = iota
	// addresses: every address that a frontend has. The first to grow and the
	// last to shrink: it is the mark of ownership.
	addresses
	// hairpin: the local endpoints, each with itself as the source.
	hairpin
	// dropped: frontends whose packets are to vanish.
	dropped
	// kept: frontends whose clients from outside keep their source address.
	kept
	// masqueraded: frontends whose clients lose theirs even if they are Pods.
	masqueraded
	setKinds
)

// setID names one set.
type setID struct {
	kind   setKind
	family dataplane.Family
}

// String returns the name in the kernel: "TOY-VS-4".
func (s setID) String() string {
	name := [...]string{"VS", "VIP", "HAIRPIN", "DROP", "KEEP", "MASQ"}[s.kind]
	return fmt.Sprintf("TOY-%s-%d", name, s.family)
}

// spare returns the name of the set that is filled in the place of one that has
// become too small, and then swapped with it.
func (s setID) spare() string { return s.String() + "-NEXT" }

// Type returns the kernel's name of the set's type.
func (k setKind) Type() string {
	switch k {
	case addresses:
		return "hash:ip"
	case hairpin:
		return "hash:ip,port,ip"
	}
	return "hash:ip,port"
}

// entry is a member of a set. The fields that the type of the set does not have
// are zero.
type entry struct {
	addr     netip.Addr
	protocol dataplane.Protocol
	port     uint16
	source   netip.Addr
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
	return s
}

// compare orders entries by address, protocol, port.
func (e entry) compare(o entry) int { return e.key().Compare(o.key()) }

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
	return fmt.Sprintf("create %s %s family %s maxelem %d", name, id.kind.Type(), familyWord(id.family), max)
}
