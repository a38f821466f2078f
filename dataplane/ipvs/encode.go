package ipvs

import (
	"encoding/binary"
	"net/netip"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// encoder writes netlink requests one behind the other.
type encoder struct {
	buf []byte
	// sequence is the number of the next request.
	sequence uint32
}

// open begins a request; close ends what open or nest began.
func (e *encoder) open(kind, flags uint16) int {
	at := len(e.buf)
	e.buf = binary.NativeEndian.AppendUint32(e.buf, 0)
	e.buf = binary.NativeEndian.AppendUint16(e.buf, kind)
	e.buf = binary.NativeEndian.AppendUint16(e.buf, flags|unix.NLM_F_REQUEST)
	e.buf = binary.NativeEndian.AppendUint32(e.buf, e.sequence)
	e.buf = binary.NativeEndian.AppendUint32(e.buf, 0)
	return at
}

func (e *encoder) close(at int) {
	binary.NativeEndian.PutUint32(e.buf[at:], uint32(len(e.buf)-at))
}

// addFlags adds flags to the request that begins at a place.
func (e *encoder) addFlags(at int, flags uint16) {
	f := e.buf[at+6:]
	binary.NativeEndian.PutUint16(f, binary.NativeEndian.Uint16(f)|flags)
}

// bytes writes an attribute, and zeros up to the next border of four bytes.
func (e *encoder) bytes(kind uint16, value ...byte) {
	e.buf = binary.NativeEndian.AppendUint16(e.buf, uint16(unix.NLA_HDRLEN+len(value)))
	e.buf = binary.NativeEndian.AppendUint16(e.buf, kind)
	e.buf = append(e.buf, value...)
	e.buf = append(e.buf, make([]byte, aligned(len(value))-len(value))...)
}

func (e *encoder) uint16(kind, value uint16) {
	e.bytes(kind, binary.NativeEndian.AppendUint16(nil, value)...)
}

func (e *encoder) uint32(kind uint16, value uint32) {
	e.bytes(kind, binary.NativeEndian.AppendUint32(nil, value)...)
}

// port is in network byte order.
func (e *encoder) port(kind, value uint16) { e.bytes(kind, byte(value>>8), byte(value)) }

// text ends with a zero.
func (e *encoder) text(kind uint16, s string) { e.bytes(kind, append([]byte(s), 0)...) }

// nest begins an attribute that consists of attributes.
func (e *encoder) nest(kind uint16) int {
	at := len(e.buf)
	e.buf = binary.NativeEndian.AppendUint16(e.buf, 0)
	e.buf = binary.NativeEndian.AppendUint16(e.buf, kind|unix.NLA_F_NESTED)
	return at
}

func (e *encoder) endNest(at int) {
	binary.NativeEndian.PutUint16(e.buf[at:], uint16(len(e.buf)-at))
}

func aligned(n int) int { return (n + 3) &^ 3 }

// The commands and attributes of generic netlink family IPVS, from linux/ip_vs.h.
const (
	ipvsVersion = 1

	newServiceCommand = 1
	setServiceCommand = 2
	delServiceCommand = 3
	getServiceCommand = 4
	newDestCommand    = 5
	setDestCommand    = 6
	delDestCommand    = 7
	getDestCommand    = 8

	serviceAttribute = 1
	destAttribute    = 2

	serviceFamily    = 1
	serviceProtocol  = 2
	serviceAddr      = 3
	servicePort      = 4
	serviceMark      = 5
	serviceScheduler = 6
	serviceFlag      = 7
	serviceTimeout   = 8
	serviceNetmask   = 9
	serviceStats     = 12 // in numbers of 64 bits

	destAddr     = 1
	destPort     = 2
	destMethod   = 3
	destWeight   = 4
	destUpper    = 5
	destLower    = 6
	destActive   = 7
	destInactive = 8

	statsConnections = 1
	statsPacketsIn   = 2
	statsPacketsOut  = 3
	statsBytesIn     = 4
	statsBytesOut    = 5
)

// command begins a request of the family with the given number.
func (e *encoder) command(family uint16, command byte) int {
	at := e.open(family, 0)
	e.buf = append(e.buf, command, ipvsVersion, 0, 0)
	return at
}

// identity writes what tells a virtual server from others.
func (e *encoder) identity(v serverID) {
	e.uint16(serviceFamily, uint16(afOf(dataplane.FamilyOf(v.Addr))))
	if v.mark != 0 {
		e.uint32(serviceMark, v.mark)
		return
	}
	e.uint16(serviceProtocol, uint16(v.Protocol))
	e.bytes(serviceAddr, v.Addr.AsSlice()...)
	e.port(servicePort, v.Port)
}

// server writes a request about a virtual server.
func (e *encoder) server(family uint16, command byte, v virtualServer) {
	at := e.command(family, command)
	service := e.nest(serviceAttribute)
	e.identity(v.serverID)
	if command != delServiceCommand {
		e.text(serviceScheduler, v.scheduler)
		// The mask says which of the flags are meant: all.
		e.bytes(serviceFlag, binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, uint32(v.flags)), 0xffffffff)...)
		e.uint32(serviceTimeout, v.timeout)
		netmask := uint32(0xffffffff)
		if v.Addr.Is6() {
			netmask = 128 // for IPv6 it is the length of a prefix
		}
		e.uint32(serviceNetmask, netmask)
	}
	e.endNest(service)
	e.close(at)
}

// real writes a request about a real server.
func (e *encoder) real(family uint16, command byte, v virtualServer, r realServer) {
	at := e.command(family, command)
	service := e.nest(serviceAttribute)
	e.identity(v.serverID)
	e.endNest(service)
	dest := e.nest(destAttribute)
	e.bytes(destAddr, r.addr.addrPort().Addr().AsSlice()...)
	e.port(destPort, r.addr.port)
	if command != delDestCommand {
		e.uint32(destMethod, ipvs.ConnFwdMasq)
		e.uint32(destWeight, uint32(r.weight))
		e.uint32(destUpper, r.began)
		e.uint32(destLower, 0)
	}
	e.endNest(dest)
	e.close(at)
}

// findFamily writes a request for the number of a generic netlink family.
func (e *encoder) findFamily(name string) {
	at := e.command(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY)
	e.text(unix.CTRL_ATTR_FAMILY_NAME, name)
	e.close(at)
}

// listServers writes a request to list all virtual servers.
func (e *encoder) listServers(family uint16) {
	e.close(e.command(family, getServiceCommand))
}

// listReal writes a request to list the real servers of a virtual server.
func (e *encoder) listReal(family uint16, of serverID) {
	at := e.command(family, getDestCommand)
	service := e.nest(serviceAttribute)
	e.identity(of)
	e.endNest(service)
	e.close(at)
}

// set begins a request about sets.
func (e *encoder) set(command uint16, f uint8) int {
	at := e.open(command|unix.NFNL_SUBSYS_IPSET<<8, 0)
	e.buf = append(e.buf, f, nl.NFNETLINK_V0, 0, 0)
	e.bytes(nl.IPSET_ATTR_PROTOCOL, nl.IPSET_PROTOCOL)
	return at
}

// listSets writes a request to list the names of all sets.
func (e *encoder) listSets() {
	const onlyNames = 1 << 1
	at := e.set(nl.IPSET_CMD_LIST, unix.AF_UNSPEC)
	e.bytes(nl.IPSET_ATTR_FLAGS|unix.NLA_F_NET_BYTEORDER, 0, 0, 0, onlyNames)
	e.close(at)
}

// listSet writes a request to list one set with its entries.
func (e *encoder) listSet(name string) {
	at := e.set(nl.IPSET_CMD_LIST, unix.AF_UNSPEC)
	e.text(nl.IPSET_ATTR_SETNAME, name)
	e.close(at)
}

// setType writes a request for the revisions of a type of sets.
func (e *encoder) setType(name string, f dataplane.Family) {
	at := e.set(nl.IPSET_CMD_TYPE, afOf(f))
	e.text(nl.IPSET_ATTR_TYPENAME, name)
	e.bytes(nl.IPSET_ATTR_FAMILY, afOf(f))
	e.close(at)
}

// entry writes a request to add an entry to a set, or to delete it. Without the
// flag NLM_F_EXCL the kernel takes it for success if that is so already.
func (e *encoder) entry(command uint16, set string, n entry) {
	at := e.set(command, afOf(dataplane.FamilyOf(n.addr)))
	e.text(nl.IPSET_ATTR_SETNAME, set)
	data := e.nest(nl.IPSET_ATTR_DATA)
	e.setAddr(nl.IPSET_ATTR_IP, n.addr)
	if n.port != 0 {
		e.port(nl.IPSET_ATTR_PORT|unix.NLA_F_NET_BYTEORDER, n.port)
		e.bytes(nl.IPSET_ATTR_PROTO, byte(n.protocol))
	}
	if n.source.IsValid() {
		e.setAddr(nl.IPSET_ATTR_IP2, n.source)
	}
	if n.bits != 0 {
		e.bytes(nl.IPSET_ATTR_CIDR2, n.bits)
	}
	switch {
	case n.mark != 0 && n.port != 0:
		// Behind the mark stands its mask: packets get the whole mark.
		e.bytes(nl.IPSET_ATTR_SKBMARK|unix.NLA_F_NET_BYTEORDER, binary.BigEndian.AppendUint64(nil, uint64(n.mark)<<32|0xffffffff)...)
	case n.mark != 0:
		e.bytes(nl.IPSET_ATTR_MARK|unix.NLA_F_NET_BYTEORDER, binary.BigEndian.AppendUint32(nil, n.mark)...)
	}
	e.endNest(data)
	e.close(at)
}

// setAddr writes an address of a set entry, which is wrapped in an attribute that
// tells its family.
func (e *encoder) setAddr(kind uint16, a netip.Addr) {
	at := e.nest(kind)
	family := uint16(nl.IPSET_ATTR_IPADDR_IPV4)
	if a.Is6() {
		family = nl.IPSET_ATTR_IPADDR_IPV6
	}
	e.bytes(family|unix.NLA_F_NET_BYTEORDER, a.AsSlice()...)
	e.endNest(at)
}

// localRoute is a route that makes an address local.
type localRoute struct {
	addr, source netip.Addr
	link         int
	priority     uint32
	// table is the number of the routing table; zero means that of local
	// addresses.
	table uint32
}

// listRoutes writes a request to list the routes of a table that make an address local.
// A kernel that does not look at what is asked for tells all routes.
func (e *encoder) listRoutes(f dataplane.Family, table uint32) {
	at := e.open(unix.RTM_GETROUTE, 0)
	e.buf = append(e.buf, afOf(f), 0, 0, 0, unix.RT_TABLE_UNSPEC, 0, 0, unix.RTN_LOCAL, 0, 0, 0, 0)
	e.uint32(unix.RTA_TABLE, table)
	e.close(at)
}

// route writes a request to add or to delete a local route.
func (e *encoder) route(command, flags uint16, r localRoute) {
	at := e.open(command, flags)
	family, table := dataplane.FamilyOf(r.addr), byte(unix.RT_TABLE_LOCAL)
	if r.table != 0 {
		table = unix.RT_TABLE_UNSPEC
	}
	e.buf = append(e.buf, afOf(family), byte(r.addr.BitLen()), 0, 0,
		table, routeProtocol, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0)
	e.bytes(unix.RTA_DST, r.addr.AsSlice()...)
	if r.table != 0 {
		e.uint32(unix.RTA_TABLE, r.table)
	}
	if r.link != 0 {
		e.uint32(unix.RTA_OIF, uint32(r.link))
	}
	if r.source.IsValid() {
		e.bytes(unix.RTA_PREFSRC, r.source.AsSlice()...)
	}
	if r.priority != 0 {
		e.uint32(unix.RTA_PRIORITY, r.priority)
	}
	e.close(at)
}
