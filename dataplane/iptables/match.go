package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/toyproxy/toyproxy/dataplane"
)

// rule joins the parts of a rule that are not empty.
func rule(parts ...string) string {
	var room [256]byte
	b := room[:0]
	for _, p := range parts {
		if p == "" {
			continue
		}
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(b, p...)
	}
	return string(b)
}

// to matches packets to a range of addresses. The range of all addresses is no
// match at all: iptables-save does not print it.
func to(p netip.Prefix) string { return address("-d", p) }

// from matches packets from a range of addresses.
func from(p netip.Prefix) string { return address("-s", p) }

// notFrom matches packets from anywhere but a range of addresses.
func notFrom(p netip.Prefix) string { return "! -s " + p.Masked().String() }

func address(flag string, p netip.Prefix) string {
	if p.Bits() == 0 {
		return ""
	}
	return flag + " " + p.Masked().String()
}

// contains reports whether an address lies in one of the ranges.
func contains(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// single is the prefix of one address.
func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// port matches a protocol and one destination port.
func port(p dataplane.Protocol, n uint16) string {
	name := p.String()
	return "-p " + name + " -m " + name + " --dport " + strconv.Itoa(int(n))
}

// ports matches a protocol and a range of destination ports.
func ports(p dataplane.Protocol, low, high uint16) string {
	if low == 0 && high == 65535 {
		return "-p " + p.String()
	}
	if low == high {
		return port(p, low)
	}
	return fmt.Sprintf("-p %s -m %s --dport %d:%d", p, p, low, high)
}

// fromNode matches packets whose source is an address of the node.
const fromNode = "-m addrtype --src-type LOCAL"

// jump calls a chain; a packet that falls out of it comes back.
func jump(chain string) string { return "-j " + chain }

// goTo continues in a chain; a packet that falls out of it goes back to where
// the chain before was called from.
func goTo(chain string) string { return "-g " + chain }

// digits cuts an address into its hexadecimal digits, 8 or 32.
func digits(a netip.Addr) string {
	raw := a.AsSlice()
	out := make([]byte, 0, 2*len(raw))
	for _, b := range raw {
		out = append(out, b>>4, b&15)
	}
	return string(out)
}

// prefixOf turns digits back into a range of addresses.
func prefixOf(f dataplane.Family, digits string) netip.Prefix {
	raw := make([]byte, f.Bits()/8)
	for i := range len(digits) {
		raw[i/2] |= digits[i] << (4 * (1 - i%2))
	}
	a, _ := netip.AddrFromSlice(raw)
	return netip.PrefixFrom(a, 4*len(digits))
}
