package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

func afOf(f dataplane.Family) uint8 {
	if f == dataplane.IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// genericHeader is the size of what stands before the attributes of an answer of
// a generic netlink family.
const genericHeader = 4

// attributes calls each with the kind and the value of every attribute in b.
func attributes(b []byte, each func(kind uint16, value []byte)) error {
	for len(b) >= unix.NLA_HDRLEN {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.NLA_HDRLEN || size > len(b) {
			return fmt.Errorf("attribute of %d bytes in %d", size, len(b))
		}
		each(binary.NativeEndian.Uint16(b[2:])&nl.NLA_TYPE_MASK, b[unix.NLA_HDRLEN:size])
		b = b[min(aligned(size), len(b)):]
	}
	return nil
}

// number reads an attribute that is a number of the host's byte order, of two,
// four or eight bytes.
func number(value []byte) uint64 {
	switch len(value) {
	case 2:
		return uint64(binary.NativeEndian.Uint16(value))
	case 4:
		return uint64(binary.NativeEndian.Uint32(value))
	case 8:
		return binary.NativeEndian.Uint64(value)
	}
	return 0
}

// decodeFamily reads the answer that tells the number of a generic netlink family.
func decodeFamily(body []byte) (id uint16, err error) {
	if len(body) < genericHeader {
		return 0, fmt.Errorf("answer of %d bytes", len(body))
	}
	err = attributes(body[genericHeader:], func(kind uint16, value []byte) {
		if kind == unix.CTRL_ATTR_FAMILY_ID {
			id = uint16(number(value))
		}
	})
	return id, err
}

// nested calls each with the attributes inside the one attribute of that kind, in
// an answer of a generic netlink family.
func nested(body []byte, outer uint16, each func(kind uint16, value []byte)) error {
	if len(body) < genericHeader {
		return fmt.Errorf("answer of %d bytes", len(body))
	}
	var inner error
	err := attributes(body[genericHeader:], func(kind uint16, value []byte) {
		if kind == outer {
			inner = attributes(value, each)
		}
	})
	return errors.Join(err, inner)
}

// decodeServer reads the answer that tells of one virtual server.
func decodeServer(body []byte) (virtualServer, error) {
	var v virtualServer
	var addr []byte
	family := dataplane.IPv4
	err := nested(body, serviceAttribute, func(kind uint16, value []byte) {
		switch kind {
		case serviceFamily:
			if number(value) == unix.AF_INET6 {
				family = dataplane.IPv6
			}
		case serviceProtocol:
			v.Protocol = dataplane.Protocol(number(value))
		case serviceAddr:
			addr = value
		case servicePort:
			v.Port = portOf(value)
		case serviceMark:
			v.mark = uint32(number(value))
		case serviceScheduler:
			v.scheduler = strings.TrimRight(string(value), "\x00")
		case serviceFlag:
			v.flags = serviceFlags(number(value[:min(4, len(value))])) // behind them stands a mask
		case serviceTimeout:
			v.timeout = uint32(number(value))
		}
	})
	if err != nil {
		return v, fmt.Errorf("virtual server: %w", err)
	}
	v.Addr, v.flows = addrOf(addr, family), v.Protocol
	if v.mark != 0 {
		v.Key = dataplane.Key{Addr: unspecified(family)}
	}
	if !v.Addr.IsValid() {
		return v, fmt.Errorf("virtual server: address of %d bytes", len(addr))
	}
	return v, nil
}

// decodeCounted reads of the same answer what was counted.
func decodeCounted(body []byte) (countedServer, error) {
	v, err := decodeServer(body)
	c := countedServer{serverID: v.serverID}
	if err != nil {
		return c, err
	}
	var stats []byte
	err = nested(body, serviceAttribute, func(kind uint16, value []byte) {
		if kind == serviceStats {
			stats = value
		}
	})
	return c, errors.Join(err, attributes(stats, c.decode))
}

// decode reads one of the numbers.
func (c *counted) decode(kind uint16, value []byte) {
	switch n := number(value); kind {
	case statsConnections:
		c.connections = n
	case statsPacketsIn:
		c.packetsIn = n
	case statsPacketsOut:
		c.packetsOut = n
	case statsBytesIn:
		c.bytesIn = n
	case statsBytesOut:
		c.bytesOut = n
	}
}

// decodeReal reads the answer that tells of one real server of the family.
func decodeReal(body []byte, f dataplane.Family) (realServer, error) {
	var r realServer
	var addr netip.Addr
	var port uint16
	err := nested(body, destAttribute, func(kind uint16, value []byte) {
		switch kind {
		case destAddr:
			addr = addrOf(value, f)
		case destPort:
			port = portOf(value)
		case destMethod:
			r.foreign = methodOf(uint32(number(value)))
		case destWeight:
			r.weight = uint16(number(value))
		case destUpper:
			r.began = uint32(number(value))
		case destActive, destInactive:
			r.open += uint32(number(value))
		}
	})
	if err == nil && !addr.IsValid() {
		err = fmt.Errorf("no %s address", f)
	}
	if err != nil {
		return r, fmt.Errorf("real server: %w", err)
	}
	r.addr = spotOf(netip.AddrPortFrom(addr, port))
	return r, nil
}

// addrOf reads an address, which stands in a field that has room for either
// family.
func addrOf(value []byte, f dataplane.Family) netip.Addr {
	if size := f.Bits() / 8; len(value) >= size {
		a, _ := netip.AddrFromSlice(value[:size])
		return a
	}
	return netip.Addr{}
}

// portOf reads a port, which is in network byte order.
func portOf(value []byte) uint16 {
	if len(value) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(value)
}
