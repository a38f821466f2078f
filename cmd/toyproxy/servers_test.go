package main

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// The kernel writes addresses as words of 32 bits in its own order: these are of
// a machine that begins with the lowest byte.
func TestParseSockets(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("SKIP(kernel): the recorded tables are those of a little-endian machine")
	}
	const text = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:7580 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 010200C0:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 3 1
   3: nonsense 00000000:0000 0A
   4: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4 1
   5: 0000000000000000FFFF0000010200C0:0051 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 5 1
`
	var want []netip.AddrPort
	for _, at := range []string{"0.0.0.0:30080", "192.0.2.1:22", "[2001:db8::1]:80", "192.0.2.1:81"} {
		want = append(want, netip.MustParseAddrPort(at))
	}
	if got := parseSockets(text, "0A"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
