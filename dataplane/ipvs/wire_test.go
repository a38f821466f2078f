package ipvs

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// attribute is one attribute of netlink.
func attribute(kind uint16, value []byte) []byte {
	b := make([]byte, 4, 4+aligned(len(value)))
	binary.NativeEndian.PutUint16(b, uint16(4+len(value)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	b = append(b, value...)
	return append(b, make([]byte, aligned(len(b))-len(b))...)
}

// saidOf is what the kernel says of a real server: an address stands in 16 bytes,
// of whatever family it is.
func saidOf(addr string, more ...[]byte) []byte {
	field := make([]byte, 16)
	copy(field, netip.MustParseAddr(addr).AsSlice())
	inner := append(attribute(destAddr, field), attribute(destPort, []byte{0x1f, 0x90})...)
	for _, m := range more {
		inner = append(inner, m...)
	}
	return append(make([]byte, genericHeader), attribute(destAttribute, inner)...)
}

// TestDecodeReal proves that a real server is of the family that was asked for,
// whether the kernel names a family or not: old ones do not (fault 72).
func TestDecodeReal(t *testing.T) {
	const destFamily = 11
	for _, c := range []struct {
		name, addr string
		family     dataplane.Family
		more       [][]byte
	}{
		{"IPv4, family not named", "10.244.0.5", dataplane.IPv4, nil},
		{"IPv4, family named", "10.244.0.5", dataplane.IPv4, [][]byte{attribute(destFamily, []byte{2, 0})}},
		{"IPv6, family not named", "fd00::5", dataplane.IPv6, nil},
		{"IPv6, family named", "fd00::5", dataplane.IPv6, [][]byte{attribute(destFamily, []byte{10, 0})}},
		{"an address that looks like the other family's", "::a", dataplane.IPv6, nil},
	} {
		r, err := decodeReal(saidOf(c.addr, c.more...), c.family)
		if want := netip.AddrPortFrom(netip.MustParseAddr(c.addr), 8080); err != nil || r.addr.addrPort() != want {
			t.Errorf("%s: %s, %v; want %s", c.name, r.addr, err, want)
		}
	}
}

// FuzzDecode proves that no message makes the readers panic.
func FuzzDecode(f *testing.F) {
	whole := saidOf("10.244.0.5", attribute(destWeight, []byte{1, 0, 0, 0}), attribute(destActive, []byte{7, 0, 0, 0}))
	route := append([]byte{unix.AF_INET, 32, 0, 0, 0, routeProtocol, 0, unix.RTN_LOCAL, 0, 0, 0, 0}, attribute(unix.RTA_DST, []byte{10, 96, 0, 1})...)
	for _, seed := range [][]byte{nil, {0}, whole, route, whole[:len(whole)-3], append(make([]byte, genericHeader), attribute(serviceAttribute, attribute(serviceMark, []byte{1}))...)} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, body []byte) {
		_, _ = decodeFamily(body)
		_, _ = decodeServer(body)
		_, _ = decodeCounted(body)
		_, _ = decodeReal(body, dataplane.IPv4)
		_, _ = decodeReal(body, dataplane.IPv6)
		_, _ = decodeRoute(body)
		h := heldSet{entries: map[entry]struct{}{}}
		_ = h.decodeMessage(body)
	})
}
