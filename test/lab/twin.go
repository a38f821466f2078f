package lab

import "net/netip"

// Twin returns the IPv6 address that goes with an IPv4 address of the lab: the
// other address of the same host, or for 10.96.0.N, 203.0.113.N and 198.51.100.N,
// which no host has, the address with the same last digits in the IPv6 range.
func Twin(a netip.Addr) (netip.Addr, bool) {
	bases := [][]netip.Prefix{podsN(), podsM(), lan(), ServiceRanges(), ExternalRanges(), AbroadRanges()}
	for _, b := range bases {
		near := netip.PrefixFrom(b[0].Addr(), 24)
		if a.Is4() && near.Contains(a) {
			return host(b[1], uint64(a.As4()[3])), true
		}
	}
	return netip.Addr{}, false
}
