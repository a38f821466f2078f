package podnet

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Fault is what makes a node impossible beside others.
type Fault struct {
	// Field is the path within the Node object, such as spec.podCIDRs.
	Field string
	// Message says why, and how to mend it.
	Message string
}

// faults collects those of one node.
type faults []Fault

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, Fault{field, fmt.Sprintf(format, args...)})
}

// The fields that a Member is made of.
const (
	fieldName   = "metadata.name"
	fieldAddrs  = "status.addresses"
	fieldRanges = "spec.podCIDRs"
)

// Faults are what makes a node impossible: by itself, beside those before it, and
// beside the ranges of Services. Pure.
func (m Member) Faults(before []Member, services []netip.Prefix) []Fault {
	var out faults
	if err := CheckNamespaceName(m.Name); err != nil {
		out.add(fieldName, "%v", err)
	}
	for _, r := range m.PodRanges {
		m.rangeFaults(&out, r, services)
	}
	for _, a := range m.Addrs {
		for _, s := range services {
			if s.Contains(a) {
				out.add(fieldAddrs, "its address %s lies in the Service range %s: choose another address", a, s)
			}
		}
	}
	for _, other := range before {
		m.clashes(&out, other)
	}
	return out
}

// rangeFaults adds what is wrong with one range of the node's Pods.
func (m Member) rangeFaults(out *faults, r netip.Prefix, services []netip.Prefix) {
	if err := checkRanges(Config{PodRanges: []netip.Prefix{r}, ServiceRanges: services, MTU: DefaultMTU}); err != nil {
		out.add(fieldRanges, "%v", err)
	}
	f := dataplane.FamilyOf(r.Addr())
	if _, ok := m.addr(f); !ok {
		out.add(fieldRanges, "it has the Pod range %s and no %s address, so that no other Node would find the way: add one of type InternalIP to status.addresses", r, f)
	}
	for _, a := range m.Addrs {
		if lan(a).Overlaps(r) {
			out.add(fieldAddrs, "its address %s lies beside its Pod range %s: choose another address, outside of %s", a, r, lan(a))
		}
	}
}

// clashes adds what two nodes cannot both have.
func (m Member) clashes(out *faults, other Member) {
	for _, a := range m.Addrs {
		if slices.Contains(other.Addrs, a) {
			out.add(fieldAddrs, "Node %s has the address %s too: choose another one", other.Name, a)
		}
		if i := slices.IndexFunc(other.PodRanges, lan(a).Overlaps); i >= 0 {
			out.add(fieldAddrs, "its address %s lies beside the Pod range %s of Node %s: choose another address", a, other.PodRanges[i], other.Name)
		}
	}
	for _, r := range m.PodRanges {
		if i := slices.IndexFunc(other.PodRanges, r.Overlaps); i >= 0 {
			out.add(fieldRanges, "Pod range %s overlaps %s of Node %s: choose another one in spec.podCIDRs", r, other.PodRanges[i], other.Name)
		}
		for _, a := range other.Addrs {
			if lan(a).Overlaps(r) {
				out.add(fieldRanges, "Pod range %s holds neighbours of the address %s of Node %s: choose another one in spec.podCIDRs", r, a, other.Name)
			}
		}
	}
}
