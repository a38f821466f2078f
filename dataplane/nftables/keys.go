package nftables

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Keys and data of elements are strings of bytes as the kernel has them in its
// registers: every field is filled up to four bytes, addresses and ports are
// big endian, the number of a row has the byte order of the machine.

// rowSpan is how far apart the rows of the alternatives of one frontend begin.
// No alternative has as many rows.
const rowSpan = 1 << 16

// longestKey is how long keys are at most: two addresses of IPv6, protocol, port
// and number.
const longestKey = 2*16 + 3*4

// frontendKey is address, protocol and port.
func frontendKey(k dataplane.Key) string {
	var room [longestKey]byte
	b := append(appendAddr(room[:0], k.Addr), byte(k.Protocol), 0, 0, 0)
	return string(append(binary.BigEndian.AppendUint16(b, k.Port), 0, 0))
}

// rowKey is a frontend's key with the number of a row.
func rowKey(frontend string, number uint32) string {
	var room [longestKey]byte
	return string(binary.NativeEndian.AppendUint32(append(room[:0], frontend...), number))
}

// byKey orders elements by the bytes of their keys.
func byKey(x, y element) int {
	return cmp.Or(strings.Compare(x.key, y.key), strings.Compare(x.end, y.end))
}

// endpointData is address and port.
func endpointData(a netip.AddrPort) string { return string(appendEndpoint(nil, a)) }

// appendEndpoint appends address and port.
func appendEndpoint(b []byte, a netip.AddrPort) []byte {
	return append(binary.BigEndian.AppendUint16(appendAddr(b, a.Addr()), a.Port()), 0, 0)
}

func appendAddr(b []byte, a netip.Addr) []byte {
	if a.Is4() {
		four := a.As4()
		return append(b, four[:]...)
	}
	six := a.As16()
	return append(b, six[:]...)
}

// addressKey is one address.
func addressKey(a netip.Addr) string { return string(a.AsSlice()) }

// pairKey is source and destination, both the same.
func pairKey(a netip.Addr) string { return addressKey(a) + addressKey(a) }

// allowedKey is the range of keys of a frontend with a range of sources.
func allowedKey(frontend string, r netip.Prefix) (low, high string) {
	first := r.Masked().Addr()
	last := first.AsSlice()
	for bit := r.Bits(); bit < 8*len(last); bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	return frontend + addressKey(first), frontend + string(last)
}

// reader takes fields off a key.
type reader struct {
	family dataplane.Family
	left   string
}

func (r *reader) take(n int) string {
	out := r.left[:n]
	r.left = r.left[n:]
	return out
}

func (r *reader) address() netip.Addr {
	a, _ := netip.AddrFromSlice([]byte(r.take(r.family.Bits() / 8)))
	return a
}

func (r *reader) protocol() dataplane.Protocol { return dataplane.Protocol(r.take(4)[0]) }

func (r *reader) port() uint16 { return binary.BigEndian.Uint16([]byte(r.take(4))) }

func (r *reader) number() uint32 { return binary.NativeEndian.Uint32([]byte(r.take(4))) }

// rangeText writes the range of addresses from one to the end of a key.
func rangeText(f dataplane.Family, first netip.Addr, end string) string {
	n := f.Bits() / 8
	if len(end) < n {
		return first.String()
	}
	last, _ := netip.AddrFromSlice([]byte(end[len(end)-n:]))
	for bits := f.Bits(); bits >= 0; bits-- {
		p := netip.PrefixFrom(first, bits)
		if _, high := allowedKey("", p); p.Masked().Addr() == first && high == addressKey(last) {
			return prefixText(p)
		}
	}
	return first.String() + "-" + last.String()
}
