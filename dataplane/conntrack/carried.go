package conntrack

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// When another backend takes over from IPVS, what IPVS has begun to carry it carries
// to the end, as long as its virtual and real server are there. Which flows those
// are only its own list tells: a flow that it has lost goes nowhere.

// Carried is a flow that IPVS has a connection for.
type Carried struct {
	Protocol dataplane.Protocol
	// Original is the flow as the client sends it.
	Original Tuple
	Endpoint netip.AddrPort
}

// carried returns how IPVS knows a flow.
func (f Flow) carried() Carried { return Carried{f.Protocol, f.Original, f.Endpoint()} }

// lost reports whether IPVS translated a flow and does so no more.
func (w Wanted) lost(f Flow) bool {
	return !w.Virtual && f.Translated() && !f.Rewritten && !w.Carried[f.carried()]
}

// parseCarried reads the kernel's list of connections of IPVS, of which those count
// whose endpoint is among the real servers, unless these are nil: without one a
// connection ends with its next packet. Pure.
func parseCarried(connections string, servers map[netip.AddrPort]bool) map[Carried]bool {
	out := map[Carried]bool{}
	for line := range strings.Lines(connections) {
		words := strings.Fields(line)
		if len(words) < 7 {
			continue
		}
		c := Carried{Original: Tuple{parseEnd(words[1], words[2]), parseEnd(words[3], words[4])}, Endpoint: parseEnd(words[5], words[6])}
		for _, p := range []dataplane.Protocol{dataplane.TCP, dataplane.UDP, dataplane.SCTP} {
			if strings.EqualFold(words[0], p.String()) {
				c.Protocol = p
			}
		}
		if c.Protocol != 0 && c.Endpoint.IsValid() && (servers == nil || servers[c.Endpoint]) {
			out[c] = true
		}
	}
	return out
}

// parseEnd reads an address and a port as these lists have them: 0A60000A for
// 10.96.0.10, all eight groups of IPv6, 0050 for port 80. What is no such thing, as
// in the lines of titles, gives the zero value.
func parseEnd(addr, port string) netip.AddrPort {
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}
	}
	if a, err := netip.ParseAddr(addr); err == nil {
		return netip.AddrPortFrom(a, uint16(n))
	}
	v4, err := strconv.ParseUint(addr, 16, 32)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8), byte(v4)}), uint16(n))
}
