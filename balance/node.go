package balance

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Node is the node that a table is made for.
type Node struct {
	// Name is compared with the nodeName of endpoints and with their node hints.
	// Empty: not known, and every endpoint may live here.
	Name string
	// Zone is compared with the zone hints of endpoints; see ZoneOf. Empty: not
	// known, and zone hints are not followed.
	Zone string
	// Primary are the addresses by which the cluster knows the node; see
	// PrimaryAddrs. A load balancer whose source ranges hold one of them may be
	// used by the node under the load balancer's own address. Empty: Addrs.
	Primary []netip.Addr
	// PodRanges, PodInterfaces, ServiceRanges, Addrs and MasqueradeMark go into
	// the table as they are; see dataplane.Node. NodePortAddrs makes Addrs,
	// Detection the first two.
	PodRanges      []netip.Prefix
	PodInterfaces  []string
	ServiceRanges  []netip.Prefix
	Addrs          []netip.Addr
	MasqueradeMark uint32
	// MasqueradeAll rewrites the source of everything that goes to a ClusterIP,
	// for networks in which replies do not come back through this node.
	MasqueradeAll bool
}

// table returns what a table says of the node, in canonical order.
func (n Node) table() dataplane.Node {
	return dataplane.Node{
		PodRanges: n.PodRanges, PodInterfaces: n.PodInterfaces, ServiceRanges: n.ServiceRanges,
		Addrs: slices.Compact(slices.SortedFunc(slices.Values(n.Addrs), netip.Addr.Compare)), MasqueradeMark: n.MasqueradeMark,
	}
}

// tellsPods reports whether sources of a family can be told to be Pods.
func (n Node) tellsPods(f dataplane.Family) bool {
	return len(n.PodInterfaces) > 0 ||
		slices.ContainsFunc(n.PodRanges, func(p netip.Prefix) bool { return dataplane.FamilyOf(p.Addr()) == f })
}

// primary returns the addresses by which the node is known.
func (n Node) primary() []netip.Addr {
	if len(n.Primary) > 0 {
		return n.Primary
	}
	return n.Addrs
}

// ZoneOf returns the zone of a node by the label of its Node object; empty when
// there is no such object or label.
func ZoneOf(nodes []*corev1.Node, name string) string {
	if n := nodeNamed(nodes, name); n != nil {
		return n.Labels[corev1.LabelTopologyZone]
	}
	return ""
}

// PrimaryAddrs returns the addresses by which the cluster knows a node: of each
// family the first InternalIP of its Node object, else the first ExternalIP.
func PrimaryAddrs(nodes []*corev1.Node, name string) []netip.Addr {
	n := nodeNamed(nodes, name)
	if n == nil {
		return nil
	}
	var out []netip.Addr
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			addr, err := parseAddr(a.Address)
			known := func(have netip.Addr) bool { return have.Is4() == addr.Is4() }
			if a.Type == kind && err == nil && !slices.ContainsFunc(out, known) {
				out = append(out, addr)
			}
		}
	}
	return out
}

// AddrsOf returns all addresses of a Node object, of any kind that is no name.
func AddrsOf(nodes []*corev1.Node, name string) []netip.Addr {
	n := nodeNamed(nodes, name)
	if n == nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		if addr, err := parseAddr(a.Address); err == nil {
			out = append(out, addr)
		}
	}
	return out
}

func nodeNamed(nodes []*corev1.Node, name string) *corev1.Node {
	for _, n := range nodes {
		if n.Name == name && name != "" {
			return n
		}
	}
	return nil
}
