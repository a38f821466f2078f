package ipvs

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// The listing of a set is decoded here and not by the library, which writes a
// line to standard error for each attribute that it does not know: two for every
// set that ipset(8) made, and sets made from a rendering are.

// listRequest asks for one set with its entries.
func listRequest(name string) *nl.NetlinkRequest {
	const list = nl.IPSET_CMD_LIST
	req := nl.NewNetlinkRequest(list|unix.NFNL_SUBSYS_IPSET<<8, nl.GetIpsetFlags(list))
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, nl.Uint8Attr(nl.IPSET_PROTOCOL)))
	req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_SETNAME, nl.ZeroTerminated(name)))
	return req
}

// decodeSet reads the answer, of which a large set fills many messages.
func decodeSet(messages [][]byte) (*heldSet, error) {
	h := &heldSet{entries: map[entry]struct{}{}}
	for _, m := range messages {
		if len(m) < nl.SizeofNfgenmsg {
			return nil, fmt.Errorf("message of %d bytes is too short", len(m))
		}
		if err := eachAttribute(m[nl.SizeofNfgenmsg:], h.decode); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// eachAttribute calls f with the type and the value of each attribute, and stops
// at the first error.
func eachAttribute(b []byte, f func(typ int, value []byte) error) error {
	attrs, err := nl.ParseRouteAttr(b)
	if err != nil {
		return fmt.Errorf("attributes: %w", err)
	}
	for _, a := range attrs {
		if err := f(int(a.Attr.Type&nl.NLA_TYPE_MASK), a.Value); err != nil {
			return err
		}
	}
	return nil
}

func (h *heldSet) decode(typ int, value []byte) error {
	switch typ {
	case nl.IPSET_ATTR_TYPENAME:
		h.typeName = nl.BytesToString(value)
	case nl.IPSET_ATTR_DATA:
		return eachAttribute(value, func(typ int, v []byte) error {
			if typ == nl.IPSET_ATTR_MAXELEM && len(v) == 4 {
				h.capacity = binary.BigEndian.Uint32(v)
			}
			return nil
		})
	case nl.IPSET_ATTR_ADT:
		return eachAttribute(value, func(_ int, v []byte) error {
			var e entry
			if err := eachAttribute(v, e.decode); err != nil {
				return err
			}
			h.entries[e] = struct{}{}
			return nil
		})
	}
	return nil
}

func (e *entry) decode(typ int, value []byte) error {
	switch {
	case typ == nl.IPSET_ATTR_IP:
		return decodeAddr(value, &e.addr)
	case typ == nl.IPSET_ATTR_IP2:
		return decodeAddr(value, &e.source)
	case typ == nl.IPSET_ATTR_PORT && len(value) == 2:
		e.port = binary.BigEndian.Uint16(value)
	case typ == nl.IPSET_ATTR_PROTO && len(value) == 1:
		e.protocol = dataplane.Protocol(value[0])
	}
	return nil
}

// decodeAddr reads an address, which is wrapped in an attribute of its own.
func decodeAddr(b []byte, a *netip.Addr) error {
	return eachAttribute(b, func(_ int, v []byte) error {
		var ok bool
		if *a, ok = netip.AddrFromSlice(v); !ok {
			return fmt.Errorf("address of %d bytes", len(v))
		}
		return nil
	})
}
