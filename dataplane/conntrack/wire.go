package conntrack

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Numbers of the kernel's interface nfnetlink_conntrack that the messages below
// are made of, by the names they have there.
const (
	ctaTupleOrig, ctaTupleReply, ctaStatus, ctaProtoInfo, ctaID, ctaZone = 1, 2, 3, 4, 12, 18
	ctaCountersOrig, ctaCountersReply, ctaCountPackets, ctaCountBytes    = 9, 10, 1, 2

	ctaTupleIP, ctaTupleProto              = 1, 2
	ctaV4Src, ctaV4Dst, ctaV6Src, ctaV6Dst = 1, 2, 3, 4
	ctaNum, ctaSrcPort, ctaDstPort         = 1, 2, 3
	ctaInfoTCP, ctaInfoSCTP, ctaInfoState  = 1, 3, 1

	statusSeenReply, statusDstNAT, statusDying = 1 << 1, 1 << 5, 1 << 9

	// stateSynSent of TCP and stateCookieWait of SCTP: one packet was seen.
	stateSynSent, stateCookieWait = 1, 2
	// From stateTimeWait of TCP to stateTCPClosed, and from stateShutdownSent of SCTP
	// or in stateSCTPClosed: both sides have done with the connection.
	stateTimeWait, stateTCPClosed, stateSCTPClosed, stateShutdownSent = 7, 8, 1, 5

	afInet, afInet6 = 2, 10

	nested       = 1 << 15
	attributeTag = 1<<14 - 1
	headerSize   = 4 // of a netfilter message, and of an attribute
)

// attributes walks the attributes of a message or of a nested one. It ends at
// the first that is damaged.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= headerSize {
			n := int(binary.NativeEndian.Uint16(b))
			if n < headerSize || n > len(b) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&attributeTag, b[headerSize:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// decode reads one message of a dump, without its netlink header. ok is false for
// what this package does not deal with: other protocols, and the flows of zones,
// which belong to whoever made the zone.
func decode(b []byte) (Flow, bool) {
	c, ok := decodeCounted(b)
	return c.Flow, ok
}

// decodeCounted is decode with what the kernel has counted.
func decodeCounted(b []byte) (Counted, bool) {
	if len(b) < headerSize {
		return Counted{}, false
	}
	var m entry
	for tag, v := range attributes(b[headerSize:]) {
		m.take(tag, v)
	}
	return m.counted(), m.Protocol != 0 && m.Protocol == m.reply && !m.zoned
}

// entry is what the attributes of a message say of a flow.
type entry struct {
	Counted
	// reply is the protocol of the answers, state that of TCP and of SCTP.
	reply  dataplane.Protocol
	status uint32
	state  [2]uint8
	zoned  bool
}

// take takes note of an attribute.
func (m *entry) take(tag uint16, v []byte) {
	switch tag {
	case ctaTupleOrig:
		m.Original, m.Protocol = decodeTuple(v)
	case ctaTupleReply:
		m.Reply, m.reply = decodeTuple(v)
	case ctaStatus:
		m.status = decodeNumber(v)
	case ctaID:
		m.ID = decodeNumber(v)
	case ctaProtoInfo:
		m.state = decodeState(v)
	case ctaCountersOrig:
		m.Sent = decodeVolume(v)
	case ctaCountersReply:
		m.Answered = decodeVolume(v)
	case ctaZone:
		m.zoned = true
	}
}

// counted is the flow, with what status and state say of it.
func (m *entry) counted() Counted {
	f := m.Counted
	f.Rewritten = m.status&statusDstNAT != 0
	first := f.Protocol == dataplane.TCP && m.state[0] == stateSynSent || f.Protocol == dataplane.SCTP && m.state[1] == stateCookieWait
	f.Opening = first && m.status&statusSeenReply == 0
	f.Over = over(f.Protocol, m.state)
	f.dying = m.status&statusDying != 0
	return f
}

// decodeNumber returns 0 for what is no number of 32 bits.
func decodeNumber(v []byte) uint32 {
	if len(v) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(v)
}

func decodeVolume(b []byte) (v Volume) {
	for tag, n := range attributes(b) {
		switch {
		case len(n) != 8:
		case tag == ctaCountPackets:
			v.Packets = binary.BigEndian.Uint64(n)
		case tag == ctaCountBytes:
			v.Bytes = binary.BigEndian.Uint64(n)
		}
	}
	return v
}

// over tells whether a connection has ended and is only remembered; state is that
// of TCP and of SCTP.
func over(p dataplane.Protocol, state [2]uint8) bool {
	switch p {
	case dataplane.TCP:
		return state[0] == stateTimeWait || state[0] == stateTCPClosed
	case dataplane.SCTP:
		return state[1] == stateSCTPClosed || state[1] >= stateShutdownSent
	}
	return false
}

// decodeTuple returns the protocol 0 for what is no tuple of addresses and ports.
func decodeTuple(b []byte) (Tuple, dataplane.Protocol) {
	var src, dst netip.Addr
	var ports [2]uint16
	var p dataplane.Protocol
	for tag, v := range attributes(b) {
		switch tag {
		case ctaTupleIP:
			src, dst = decodeAddrs(v)
		case ctaTupleProto:
			p, ports = decodeProto(v)
		default:
			return Tuple{}, 0 // a zone of one direction
		}
	}
	if !src.IsValid() || !dst.IsValid() || p != dataplane.TCP && p != dataplane.UDP && p != dataplane.SCTP {
		return Tuple{}, 0
	}
	return Tuple{netip.AddrPortFrom(src, ports[0]), netip.AddrPortFrom(dst, ports[1])}, p
}

func decodeAddrs(b []byte) (src, dst netip.Addr) {
	for tag, v := range attributes(b) {
		switch tag {
		case ctaV4Src, ctaV6Src:
			src, _ = netip.AddrFromSlice(v)
		case ctaV4Dst, ctaV6Dst:
			dst, _ = netip.AddrFromSlice(v)
		}
	}
	return src, dst
}

func decodeProto(b []byte) (p dataplane.Protocol, ports [2]uint16) {
	for tag, v := range attributes(b) {
		switch {
		case tag == ctaNum && len(v) == 1:
			p = dataplane.Protocol(v[0])
		case (tag == ctaSrcPort || tag == ctaDstPort) && len(v) == 2:
			ports[tag-ctaSrcPort] = binary.BigEndian.Uint16(v)
		}
	}
	return p, ports
}

func decodeState(b []byte) (state [2]uint8) {
	for kind, info := range attributes(b) {
		for tag, v := range attributes(info) {
			switch {
			case tag != ctaInfoState || len(v) != 1:
			case kind == ctaInfoTCP:
				state[0] = v[0]
			case kind == ctaInfoSCTP:
				state[1] = v[0]
			}
		}
	}
	return state
}

// dumpRequest is the body of the request for all flows of a family.
func dumpRequest(f dataplane.Family) []byte { return []byte{familyNumber(f), 0, 0, 0} }

// deleteRequest is the body of the request to delete exactly one flow: the kernel
// compares the original tuple and the identity.
func deleteRequest(f Flow) []byte {
	src, dst := f.Original.Source, f.Original.Destination
	tags := [2]uint16{ctaV4Src, ctaV4Dst}
	if src.Addr().Is6() {
		tags = [2]uint16{ctaV6Src, ctaV6Dst}
	}
	addrs := attribute(attribute(nil, tags[0], src.Addr().AsSlice()), tags[1], dst.Addr().AsSlice())
	proto := attribute(nil, ctaNum, []byte{byte(f.Protocol)})
	proto = attribute(proto, ctaSrcPort, binary.BigEndian.AppendUint16(nil, src.Port()))
	proto = attribute(proto, ctaDstPort, binary.BigEndian.AppendUint16(nil, dst.Port()))
	tuple := attribute(attribute(nil, ctaTupleIP|nested, addrs), ctaTupleProto|nested, proto)
	b := attribute(dumpRequest(dataplane.FamilyOf(src.Addr())), ctaTupleOrig|nested, tuple)
	return attribute(b, ctaID, binary.BigEndian.AppendUint32(nil, f.ID))
}

// attribute appends an attribute, and what aligns the next.
func attribute(b []byte, tag uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(headerSize+len(value)))
	b = binary.NativeEndian.AppendUint16(b, tag)
	b = append(b, value...)
	return append(b, make([]byte, -len(value)&3)...)
}

func familyNumber(f dataplane.Family) byte {
	if f == dataplane.IPv6 {
		return afInet6
	}
	return afInet
}
