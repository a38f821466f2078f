package nftables

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// ctStatusDNAT is the bit of a flow's status that says that its destination was
// rewritten.
const ctStatusDNAT = 0x20

// ctStateInvalid is the bit that stands for a packet of no connection.
const ctStateInvalid = 1

// register returns the kernel's number of the register at four times n bytes:
// those at a multiple of sixteen bytes have a name of their own.
func register(n int) uint32 {
	if n%4 == 0 {
		return uint32(1 + n/4)
	}
	return uint32(8 + n)
}

// words is how many registers of four bytes a field takes.
func words(f dataplane.Family, fd field) int {
	if fd == source || fd == destination {
		return f.Bits() / 32
	}
	return 1
}

// load puts fields into registers, one after the other.
func load(f dataplane.Family, fields []field) (out []expr.Any, at int) {
	for _, fd := range fields {
		out = append(out, loadOne(f, fd, register(at)))
		at += words(f, fd)
	}
	return out, at
}

func loadOne(f dataplane.Family, fd field, to uint32) expr.Any {
	// Where the addresses stand in the headers of IPv4 and IPv6.
	saddr, length := uint32(12), uint32(4)
	if f == dataplane.IPv6 {
		saddr, length = 8, 16
	}
	switch fd {
	case source:
		return &expr.Payload{DestRegister: to, Base: expr.PayloadBaseNetworkHeader, Offset: saddr, Len: length}
	case destination:
		return &expr.Payload{DestRegister: to, Base: expr.PayloadBaseNetworkHeader, Offset: saddr + length, Len: length}
	case protocol:
		return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: to}
	}
	return &expr.Payload{DestRegister: to, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func (s inSet) expressions(f dataplane.Family) []expr.Any {
	out, _ := load(f, s.fields)
	return append(out, &expr.Lookup{SourceRegister: 1, SetName: s.set, Invert: s.not})
}

func (s inRange) expressions(f dataplane.Family) []expr.Any {
	p := s.in.Masked()
	bytes := (p.Bits() + 7) / 8
	get := loadOne(f, s.field, 1)
	if p.Bits()%8 == 0 { // whole bytes are compared as they are, as nft does
		get.(*expr.Payload).Len = uint32(bytes)
		return []expr.Any{get, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Addr().AsSlice()[:bytes]}}
	}
	mask := make([]byte, f.Bits()/8)
	for bit := range p.Bits() {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	return []expr.Any{get,
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Addr().AsSlice()}}
}

func (fromLocal) expressions(dataplane.Family) []expr.Any {
	return []expr.Any{&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagSADDR: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: native(unix.RTN_LOCAL)}}
}

func (s isProtocol) expressions(dataplane.Family) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{byte(s)}}}
}

// and is a number in register 1 after some of its bits were kept and some set.
func and(mask, xor uint32) expr.Any {
	return &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(mask), Xor: native(xor)}
}

// tracked tests a bit of what connection tracking knows of a packet.
func tracked(key expr.CtKey, bit uint32) []expr.Any {
	return []expr.Any{&expr.Ct{Key: key, Register: 1}, and(bit, 0), &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: native(0)}}
}

func (translated) expressions(dataplane.Family) []expr.Any {
	return tracked(expr.CtKeySTATUS, ctStatusDNAT)
}

func (invalid) expressions(dataplane.Family) []expr.Any {
	return tracked(expr.CtKeySTATE, ctStateInvalid)
}

func (s marked) expressions(dataplane.Family) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, and(uint32(s), 0),
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: native(uint32(s))}}
}

func (s fromLink) expressions(dataplane.Family) []expr.Any {
	name, begins := s.name()
	data := []byte(name)
	if !begins { // the whole name, filled up
		data = append(data, make([]byte, unix.IFNAMSIZ-len(data))...)
	}
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data}}
}

func setMark(mask, xor uint32) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, and(mask, xor),
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1}}
}

func (s mark) expressions(dataplane.Family) []expr.Any { return setMark(^uint32(s), uint32(s)) }

func (s unmark) expressions(dataplane.Family) []expr.Any { return setMark(^uint32(s), 0) }

func (masquerade) expressions(dataplane.Family) []expr.Any {
	return []expr.Any{&expr.Masq{FullyRandom: true}}
}

func (drop) expressions(dataplane.Family) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
}

func (reset) expressions(dataplane.Family) []expr.Any {
	return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}
}

func (unreachable) expressions(f dataplane.Family) []expr.Any {
	code := uint8(3) // port unreachable
	if f == dataplane.IPv6 {
		code = 4
	}
	return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: code}}
}

func (s goTo) expressions(dataplane.Family) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: string(s)}}
}

func (s jump) expressions(dataplane.Family) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: string(s)}}
}

func (p pick) expressions(f dataplane.Family) []expr.Any {
	out, at := load(f, frontendFields)
	return append(out, &expr.Numgen{Register: register(at), Modulus: p.count, Type: unix.NFT_NG_RANDOM, Offset: p.offset})
}

// destinationNAT rewrites to the address and port that stand in registers from
// the first on. The kernel tells that it ranges from one address to the same.
func destinationNAT(f dataplane.Family, portAt uint32) expr.Any {
	family := uint32(unix.NFPROTO_IPV4)
	if f == dataplane.IPv6 {
		family = unix.NFPROTO_IPV6
	}
	return &expr.NAT{Type: expr.NATTypeDestNAT, Family: family, RegAddrMin: 1, RegAddrMax: 1,
		RegProtoMin: portAt, RegProtoMax: portAt, Specified: true}
}

func (s deliverBy) expressions(f dataplane.Family) []expr.Any {
	return append(s.pick.expressions(f), &expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: s.in},
		destinationNAT(f, register(words(f, destination))))
}

func (s continueBy) expressions(f dataplane.Family) []expr.Any {
	return append(s.pick.expressions(f), &expr.Lookup{SourceRegister: 1, IsDestRegSet: true, SetName: s.in})
}

func (s continueAt) expressions(f dataplane.Family) []expr.Any {
	out, _ := load(f, frontendFields)
	return append(out, &expr.Lookup{SourceRegister: 1, IsDestRegSet: true, SetName: string(s)})
}

func (s remember) expressions(f dataplane.Family) []expr.Any {
	return []expr.Any{loadOne(f, source, 1),
		&expr.Dynset{SrcRegKey: 1, SetName: s.set, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: s.time}}
}

func (s deliver) expressions(f dataplane.Family) []expr.Any {
	to := endpointData(netip.AddrPort(s))
	n := len(to) - 4
	return []expr.Any{&expr.Immediate{Register: 1, Data: []byte(to[:n])},
		&expr.Immediate{Register: 2, Data: []byte(to[n : n+2])}, destinationNAT(f, 2)}
}
