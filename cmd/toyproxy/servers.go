package main

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
)

// servers asks the kernel for the servers in the namespace of this thread: TCP
// sockets that listen, and UDP sockets that nobody has connected.
func servers() []balance.Server {
	const listening, unconnected = "0A", "07"
	var out []balance.Server
	for _, table := range []struct {
		file, state string
		protocol    dataplane.Protocol
	}{
		{"tcp", listening, dataplane.TCP}, {"tcp6", listening, dataplane.TCP},
		{"udp", unconnected, dataplane.UDP}, {"udp6", unconnected, dataplane.UDP},
	} {
		// A kernel without the protocol has no such file, and no such servers.
		text, err := os.ReadFile("/proc/thread-self/net/" + table.file)
		if err != nil {
			continue
		}
		for _, at := range parseSockets(string(text), table.state) {
			out = append(out, balance.Server{Protocol: table.protocol, At: at})
		}
	}
	return out
}

// parseSockets reads the local addresses of the sockets of one state in a table
// of /proc/net, whose addresses are words of 32 bits in this machine's order.
func parseSockets(text, state string) []netip.AddrPort {
	var out []netip.AddrPort
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != state {
			continue
		}
		words, number, _ := strings.Cut(f[1], ":")
		raw, err := hex.DecodeString(words)
		port, portErr := strconv.ParseUint(number, 16, 16)
		if err != nil || portErr != nil || len(raw)%4 != 0 {
			continue
		}
		for word := range slices.Chunk(raw, 4) {
			binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
		}
		if a, ok := netip.AddrFromSlice(raw); ok {
			out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(port)))
		}
	}
	return out
}
