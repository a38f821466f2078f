package podnet

import "net/netip"

// usable reports whether a Pod may have the address: not the range's own, not
// the gateway's, and for IPv4 not the broadcast address.
func usable(r netip.Prefix, a netip.Addr) bool {
	if !r.Contains(a) || a == r.Masked().Addr() || a == gateway(r) {
		return false
	}
	return a.Is6() || r.Contains(a.Next())
}

// nextFree returns the first free address after last, going round at the end of
// the range, so that an address that was given back is taken again only after
// all others. False: every address is taken.
//
// It costs as much as addresses in a row are taken, never as much as the range
// is long.
func nextFree(r netip.Prefix, last netip.Addr, taken map[netip.Addr]bool) (netip.Addr, bool) {
	first := gateway(r).Next()
	a := first
	if r.Contains(last) && usable(r, last.Next()) {
		a = last.Next()
	}
	for begin := a; ; {
		if !taken[a] {
			return a, true
		}
		if a = a.Next(); !usable(r, a) {
			a = first
		}
		if a == begin {
			return netip.Addr{}, false
		}
	}
}
