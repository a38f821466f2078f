package ipset

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// The library decodes listings too, but writes a line to standard error for each
// attribute that it does not know, and cannot choose the size of a hash.

// request begins a request about a set; name may be empty for all sets.
func request(command int, name string) *nl.NetlinkRequest {
	r := nl.NewNetlinkRequest(command|unix.NFNL_SUBSYS_IPSET<<8, nl.GetIpsetFlags(command))
	r.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	r.AddData(nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, nl.Uint8Attr(nl.IPSET_PROTOCOL)))
	if name != "" {
		r.AddData(nl.NewRtAttr(nl.IPSET_ATTR_SETNAME, nl.ZeroTerminated(name)))
	}
	return r
}

// number is an attribute of 32 bits in the order of the network.
func number(kind uint16, value uint32) *nl.Uint32Attribute {
	return &nl.Uint32Attribute{Type: kind | nl.NLA_F_NET_BYTEORDER, Value: value}
}

// nested begins an attribute that holds others.
func nested(kind int) *nl.RtAttr { return nl.NewRtAttr(kind|int(nl.NLA_F_NESTED), nil) }

// createRequest makes a set; one that is just the same may exist.
func createRequest(s Set) *nl.NetlinkRequest {
	r := request(nl.IPSET_CMD_CREATE, s.Name)
	family := uint8(unix.AF_INET)
	if s.Family == dataplane.IPv6 {
		family = unix.AF_INET6
	}
	r.AddData(nl.NewRtAttr(nl.IPSET_ATTR_TYPENAME, nl.ZeroTerminated(setType)))
	// Revision 0 of the type has all that is asked for here.
	r.AddData(nl.NewRtAttr(nl.IPSET_ATTR_REVISION, nl.Uint8Attr(0)))
	r.AddData(nl.NewRtAttr(nl.IPSET_ATTR_FAMILY, nl.Uint8Attr(family)))
	data := nested(nl.IPSET_ATTR_DATA)
	data.AddChild(number(nl.IPSET_ATTR_HASHSIZE, rows))
	data.AddChild(number(nl.IPSET_ATTR_TIMEOUT, s.seconds()))
	r.AddData(data)
	return r
}

// client is a member of a set and the seconds until it is forgotten.
type client struct {
	addr netip.Addr
	left uint32
}

// addRequest enters a client; one that is there gets the new time.
func addRequest(name string, c client) *nl.NetlinkRequest {
	r := request(nl.IPSET_CMD_ADD, name)
	kind := nl.IPSET_ATTR_IPADDR_IPV4
	if c.addr.Is6() {
		kind = nl.IPSET_ATTR_IPADDR_IPV6
	}
	address := nested(nl.IPSET_ATTR_IP)
	address.AddChild(nl.NewRtAttr(kind|int(nl.NLA_F_NET_BYTEORDER), c.addr.AsSlice()))
	data := nested(nl.IPSET_ATTR_DATA)
	data.AddChild(address)
	data.AddChild(number(nl.IPSET_ATTR_TIMEOUT, c.left))
	data.AddChild(number(nl.IPSET_ATTR_LINENO, 0))
	r.AddData(data)
	return r
}

// swapRequest exchanges what two names stand for.
func swapRequest(a, b string) *nl.NetlinkRequest {
	r := request(nl.IPSET_CMD_SWAP, a)
	r.AddData(nl.NewRtAttr(nl.IPSET_ATTR_SETNAME2, nl.ZeroTerminated(b)))
	return r
}

// listOnlyHeaders is the flag (IPSET_FLAG_LIST_HEADER) that leaves the members
// out of a listing: sets of others may be large.
const listOnlyHeaders = 1 << 2

// headersRequest asks for all sets without their members.
func headersRequest() *nl.NetlinkRequest {
	r := request(nl.IPSET_CMD_LIST, "")
	r.AddData(number(nl.IPSET_ATTR_FLAGS, listOnlyHeaders))
	return r
}

// eachAttribute calls f with the type and the value of each attribute, and stops
// at the first error. The library's parser panics when the last has no padding.
func eachAttribute(b []byte, f func(kind int, value []byte) error) error {
	for len(b) >= unix.SizeofRtAttr {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtAttr || length > len(b) {
			return fmt.Errorf("attribute of %d bytes in %d", length, len(b))
		}
		kind := int(binary.NativeEndian.Uint16(b[2:]) & nl.NLA_TYPE_MASK)
		if err := f(kind, b[unix.SizeofRtAttr:length]); err != nil {
			return err
		}
		b = b[min(len(b), (length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return nil
}

// message calls f with the attributes of one message about a set.
func message(m []byte, f func(kind int, value []byte) error) error {
	if len(m) < nl.SizeofNfgenmsg {
		return fmt.Errorf("message of %d bytes is too short", len(m))
	}
	return eachAttribute(m[nl.SizeofNfgenmsg:], f)
}

// decodeHeader reads one message of a listing. A large set may fill several; each
// begins with the name.
func decodeHeader(m []byte) (held, error) {
	var h held
	err := message(m, func(kind int, value []byte) error {
		switch {
		case kind == nl.IPSET_ATTR_SETNAME:
			h.name = unix.ByteSliceToString(value)
		case kind == nl.IPSET_ATTR_TYPENAME:
			h.typeName = unix.ByteSliceToString(value)
		case kind == nl.IPSET_ATTR_FAMILY && len(value) == 1:
			h.family = map[uint8]dataplane.Family{unix.AF_INET: dataplane.IPv4, unix.AF_INET6: dataplane.IPv6}[value[0]]
		case kind == nl.IPSET_ATTR_DATA:
			return eachAttribute(value, func(kind int, v []byte) error {
				if kind == nl.IPSET_ATTR_TIMEOUT && len(v) == 4 {
					h.seconds = binary.BigEndian.Uint32(v)
				}
				return nil
			})
		}
		return nil
	})
	return h, err
}

// decodeClients reads the members in one message of a listing.
func decodeClients(m []byte) ([]client, error) {
	var out []client
	err := message(m, func(kind int, value []byte) error {
		if kind != nl.IPSET_ATTR_ADT {
			return nil
		}
		return eachAttribute(value, func(_ int, v []byte) error {
			c, err := decodeClient(v)
			out = append(out, c)
			return err
		})
	})
	return out, err
}

func decodeClient(b []byte) (client, error) {
	var c client
	err := eachAttribute(b, func(kind int, v []byte) error {
		switch {
		case kind == nl.IPSET_ATTR_IP:
			// The address is wrapped in an attribute of its own.
			return eachAttribute(v, func(_ int, raw []byte) error {
				var ok bool
				if c.addr, ok = netip.AddrFromSlice(raw); !ok {
					return fmt.Errorf("address of %d bytes", len(raw))
				}
				return nil
			})
		case kind == nl.IPSET_ATTR_TIMEOUT && len(v) == 4:
			c.left = binary.BigEndian.Uint32(v)
		}
		return nil
	})
	return c, err
}

// carried returns the clients of a set with another timeout, each as long after
// it was last seen as before. Those whose time would be over are left out.
func carried(clients []client, from, to uint32) []client {
	var out []client
	for _, c := range clients {
		seen := from - min(from, c.left)
		if seen < to {
			out = append(out, client{c.addr, to - seen})
		}
	}
	return out
}
