package ipvs

import (
	"net/netip"

	"github.com/moby/ipvs"

	"github.com/toyproxy/toyproxy/dataplane"
)

// spot is the address and port of a real server. There are a hundred thousand of
// them in memory, so it has no pointer for the garbage collector to look at, and
// takes twenty bytes where netip.AddrPort takes 32. Two that are equal are the same.
type spot struct {
	addr   [16]byte
	port   uint16
	family dataplane.Family
}

// spotOf returns the spot of an address, which has no zone.
func spotOf(a netip.AddrPort) spot {
	return spot{addr: a.Addr().As16(), port: a.Port(), family: dataplane.FamilyOf(a.Addr())}
}

// addrPort returns the address with the port.
func (s spot) addrPort() netip.AddrPort {
	a := netip.AddrFrom16(s.addr)
	if s.family == dataplane.IPv4 {
		a = a.Unmap()
	}
	return netip.AddrPortFrom(a, s.port)
}

// String is as netip.AddrPort has it: "10.244.0.5:8080".
func (s spot) String() string { return s.addrPort().String() }

// compare orders by address, then by port.
func (s spot) compare(o spot) int { return s.addrPort().Compare(o.addrPort()) }

// method is how a real server is sent to.
type method uint8

const (
	// masquerading is network address translation: all that we use. A real server on
	// the node itself may be listed as local, which is no difference.
	masquerading method = iota
	tunnelling
	gatewaying
)

// methodOf returns the method that flags of the kernel name.
func methodOf(flags uint32) method {
	switch flags & ipvs.ConnFwdMask {
	case ipvs.ConnFwdMasq, ipvs.ConnFwdLocalNode:
		return masquerading
	case ipvs.ConnFwdTunnel:
		return tunnelling
	}
	return gatewaying
}

// option is the option of ipvsadm for it.
func (m method) option() string { return [...]string{"-m", "--ipip", "--gatewaying"}[m] }

// String names it for people.
func (m method) String() string { return [...]string{"masquerading", "ipip", "gatewaying"}[m] }
