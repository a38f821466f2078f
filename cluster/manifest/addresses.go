package manifest

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/toyproxy/toyproxy/cluster"
)

// addressRange hands out the addresses of one service CIDR. The lower band is
// left to people who choose addresses, as in Kubernetes (KEP-3070): dynamic
// ones come from there only when nothing else is left.
type addressRange struct {
	prefix      netip.Prefix
	first, last netip.Addr // usable, inclusive
	band        netip.Addr // first dynamic address
	owners      map[netip.Addr]cluster.Ref
	next        netip.Addr // no dynamic address before it is free
}

func makeAddressRange(p netip.Prefix) *addressRange {
	p = p.Masked()
	r := &addressRange{prefix: p, first: p.Addr().Next(), last: lastAddr(p), owners: map[netip.Addr]cluster.Ref{}}
	if p.Addr().Is4() {
		r.last = r.last.Prev() // the broadcast address
	}
	r.band = offset(r.first, staticBand(p))
	r.next = r.band
	return r
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// staticBand is min(max(16, size/16), 256) addresses, none of a tiny range.
func staticBand(p netip.Prefix) uint64 {
	hostBits := p.Addr().BitLen() - p.Bits()
	if hostBits <= 4 {
		return 0
	}
	return min(max(16, uint64(1)<<min(hostBits, 32)/16), 256)
}

// offset returns the address n after a; it may leave the range.
func offset(a netip.Addr, n uint64) netip.Addr {
	b := a.As16()
	low, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), n, 0)
	binary.BigEndian.PutUint64(b[8:], low)
	binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+carry)
	sum := netip.AddrFrom16(b)
	if a.Is4() {
		return sum.Unmap()
	}
	return sum
}

func (r *addressRange) contains(a netip.Addr) bool {
	return r.prefix.Contains(a) && !a.Less(r.first) && !r.last.Less(a)
}

// free reports whether a Service may have the address.
func (r *addressRange) free(a netip.Addr) bool {
	_, taken := r.owners[a]
	return r.contains(a) && !taken
}

// dynamic takes the lowest free address from the band up, else below it.
func (r *addressRange) dynamic(owner cluster.Ref) (netip.Addr, bool) {
	for ; r.next.IsValid() && !r.last.Less(r.next); r.next = r.next.Next() {
		if r.free(r.next) {
			r.owners[r.next] = owner
			return r.next, true
		}
	}
	for a := r.first; a.Less(r.band) && !r.last.Less(a); a = a.Next() {
		if r.free(a) {
			r.owners[a] = owner
			return a, true
		}
	}
	return netip.Addr{}, false
}

// addresses holds the ranges of both families.
type addresses []*addressRange

func makeAddresses(cidrs []netip.Prefix) addresses {
	var out addresses
	for _, p := range cidrs {
		if !slices.ContainsFunc(out, func(r *addressRange) bool { return r.prefix.Addr().Is4() == p.Addr().Is4() }) {
			out = append(out, makeAddressRange(p))
		}
	}
	return out
}

func (as addresses) families() familyRules {
	var f familyRules
	for _, r := range as {
		f = append(f, familyOf(r.prefix.Addr()))
	}
	return f
}

func (as addresses) of(family corev1.IPFamily) *addressRange {
	for _, r := range as {
		if familyOf(r.prefix.Addr()) == family {
			return r
		}
	}
	return nil
}

// refuse says why a Service may not have the addresses it asks for.
func (as addresses) refuse(spec *corev1.ServiceSpec) (errs field.ErrorList) {
	for i, a := range clusterAddrs(spec) {
		path := field.NewPath("spec", "clusterIPs").Index(i)
		r := as.of(familyOf(a))
		switch owner := r.owners[a]; {
		case !r.contains(a):
			errs = append(errs, field.Invalid(path, a.String(), fmt.Sprintf("not an address for Services of the service CIDR %s; choose one between %s and %s, or leave the field out", r.prefix, r.first, r.last)))
		case owner != cluster.Ref{}:
			errs = append(errs, field.Invalid(path, a.String(), fmt.Sprintf("%s has this address; choose another, or leave the field out", owner)))
		}
	}
	return errs
}

func (as addresses) claim(spec *corev1.ServiceSpec, owner cluster.Ref) {
	for _, a := range clusterAddrs(spec) {
		as.of(familyOf(a)).owners[a] = owner
	}
}

// keep gives a Service the addresses that it had, where they are free.
func (as addresses) keep(spec *corev1.ServiceSpec, owner cluster.Ref, earlier *corev1.ServiceSpec) {
	if !isAddressed(spec) || earlier == nil {
		return
	}
	had := clusterAddrs(earlier)
	for i := len(spec.ClusterIPs); i < len(spec.IPFamilies); i++ {
		at := slices.IndexFunc(had, func(a netip.Addr) bool { return familyOf(a) == spec.IPFamilies[i] })
		if at < 0 || !as.of(spec.IPFamilies[i]).free(had[at]) {
			return
		}
		as.give(spec, had[at], owner)
	}
}

// fill gives a Service the addresses that it still lacks.
func (as addresses) fill(spec *corev1.ServiceSpec, owner cluster.Ref) field.ErrorList {
	if !isAddressed(spec) {
		return nil
	}
	for i := len(spec.ClusterIPs); i < len(spec.IPFamilies); i++ {
		r := as.of(spec.IPFamilies[i])
		a, ok := r.conventional(owner)
		if !ok {
			a, ok = r.dynamic(owner)
		}
		if !ok {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), "", fmt.Sprintf("no address is left in the service CIDR %s; give a bigger one (--service-cidr)", r.prefix))}
		}
		as.give(spec, a, owner)
	}
	return nil
}

// conventional returns the tenth address, where everybody looks for cluster
// DNS, when the owner is that.
func (r *addressRange) conventional(owner cluster.Ref) (netip.Addr, bool) {
	dns := offset(r.first, 9)
	isDNS := owner == cluster.MakeRef(cluster.Service, "kube-system", "kube-dns")
	return dns, isDNS && r.free(dns)
}

func (as addresses) give(spec *corev1.ServiceSpec, a netip.Addr, owner cluster.Ref) {
	as.of(familyOf(a)).owners[a] = owner
	spec.ClusterIPs = append(spec.ClusterIPs, a.String())
	spec.ClusterIP = spec.ClusterIPs[0]
}

// isAddressed reports whether a Service has cluster IPs at all.
func isAddressed(spec *corev1.ServiceSpec) bool {
	return spec.Type != corev1.ServiceTypeExternalName && !headless(spec)
}

// clusterAddrs returns the cluster IPs of a checked Service.
func clusterAddrs(spec *corev1.ServiceSpec) []netip.Addr {
	var out []netip.Addr
	for _, text := range spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}
