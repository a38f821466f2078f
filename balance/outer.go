package balance

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
)

// outer is how a Service is reached from outside the cluster.
type outer struct {
	// nodePorts: the numbers in its ports are node ports.
	nodePorts bool
	// external are its external IPs and balancer the addresses of its load
	// balancer, of families that the Service has.
	external, balancer []netip.Addr
	// ranges are the only sources that the load balancer's addresses serve, by
	// family; shut are the families in which nothing is left of them but faults.
	ranges map[dataplane.Family][]netip.Prefix
	shut   map[dataplane.Family]bool
}

func readOuter(f *facts, found *findings) outer {
	spec := &f.service.Spec
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	out := outer{nodePorts: balanced || spec.Type == corev1.ServiceTypeNodePort}
	for i, text := range spec.ExternalIPs {
		if addr, ok := f.outerAddr(text, fmt.Sprintf("spec.externalIPs[%d]", i), found); ok {
			out.external = append(out.external, addr)
		}
	}
	for i, in := range f.service.Status.LoadBalancer.Ingress {
		field := fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i)
		proxied := in.IPMode != nil && *in.IPMode == corev1.LoadBalancerIPModeProxy
		switch {
		case in.IP == "" || proxied:
			// Traffic to a name, or to a load balancer that wants to see it, is
			// the business of the load balancer.
		case !balanced:
			found.unbalanced(f.service, field)
		default:
			if addr, ok := f.outerAddr(in.IP, field, found); ok {
				out.balancer = append(out.balancer, addr)
			}
		}
	}
	if balanced {
		out.readRanges(f, found)
	}
	return out
}

// outerAddr reads an address that clients outside dial.
func (f *facts) outerAddr(text, field string, found *findings) (netip.Addr, bool) {
	addr, err := parseVIP(text)
	if err != nil {
		found.badVIP(f.service, field, err)
		return addr, false
	}
	if !f.has(dataplane.FamilyOf(addr)) {
		found.otherFamily(f.service, field, addr)
		return addr, false
	}
	return addr, true
}

// readRanges reads the sources that the load balancer's addresses serve. A
// range that cannot be read must not open what it was meant to shut.
func (o *outer) readRanges(f *facts, found *findings) {
	o.ranges, o.shut = map[dataplane.Family][]netip.Prefix{}, map[dataplane.Family]bool{}
	faults, open := false, map[dataplane.Family]bool{}
	for i, text := range f.service.Spec.LoadBalancerSourceRanges {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || p.Addr().Is4In6() {
			found.badRange(f.service, i)
			faults = true
			continue
		}
		family := dataplane.FamilyOf(p.Addr())
		open[family] = open[family] || p.Bits() == 0
		o.ranges[family] = append(o.ranges[family], p.Masked())
	}
	if _, set := f.service.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]; set && len(f.service.Spec.LoadBalancerSourceRanges) == 0 {
		found.oldRanges(f.service)
	}
	for _, family := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
		balancer := ofFamily(o.balancer, family)
		switch {
		case len(balancer) == 0:
		case open[family]:
			delete(o.ranges, family)
		case len(o.ranges[family]) > 0:
			o.ranges[family] = f.withOwn(o.ranges[family], balancer)
		case faults:
			o.shut[family] = true
		case len(o.ranges) > 0:
			found.unrestricted(f.service, family)
		}
	}
}

// withOwn adds the load balancer's addresses to ranges that hold an address of
// the node, and puts them in order. Where a load balancer's address is also the
// node's, what the node sends to it has that very source.
func (f *facts) withOwn(ranges []netip.Prefix, balancer []netip.Addr) []netip.Prefix {
	inside := func(a netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if slices.ContainsFunc(f.node.primary(), inside) {
		for _, a := range balancer {
			ranges = append(ranges, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return disjoint(ranges)
}

// disjoint sorts ranges and leaves out those inside others.
func disjoint(ranges []netip.Prefix) []netip.Prefix {
	slices.SortFunc(ranges, netip.Prefix.Compare)
	out := ranges[:0]
	for _, p := range ranges {
		if n := len(out); n == 0 || !out[n-1].Contains(p.Addr()) {
			out = append(out, p)
		}
	}
	return out
}

func ofFamily(addrs []netip.Addr, family dataplane.Family) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if dataplane.FamilyOf(a) == family && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// parseVIP accepts the addresses that a client can dial from elsewhere. The
// unspecified one stands for all node addresses in a Key, and others mean
// something of their own on every machine.
func parseVIP(text string) (netip.Addr, error) {
	addr, err := parseAddr(text)
	if err != nil {
		return netip.Addr{}, err
	}
	broadcast := addr == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if addr.IsUnspecified() || addr.IsLoopback() || addr.IsMulticast() || addr.IsLinkLocalUnicast() || broadcast {
		return netip.Addr{}, fmt.Errorf("%q is no address that a client elsewhere can dial", text)
	}
	return addr, nil
}
