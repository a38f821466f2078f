package balance

import (
	"fmt"
	"net/netip"
)

// Mode is a way to tell the Pods of this node from what is outside.
type Mode string

// The modes of local detection, as kube-proxy's --detect-local-mode names them.
const (
	// ClusterCIDR: the source is in a Pod range of the cluster.
	ClusterCIDR Mode = "ClusterCIDR"
	// NodeCIDR: the source is in a Pod range of this node.
	NodeCIDR Mode = "NodeCIDR"
	// BridgeInterface: the packet came in through the bridge of that name.
	BridgeInterface Mode = "BridgeInterface"
	// InterfaceNamePrefix: it came in through a link whose name begins so.
	InterfaceNamePrefix Mode = "InterfaceNamePrefix"
)

// Detection is how Pods are told, with what each mode needs.
type Detection struct {
	// Mode is ClusterCIDR when empty.
	Mode Mode
	// ClusterRanges are the Pod ranges of the cluster, NodeRanges those of this
	// node (its Node object's spec.podCIDRs).
	ClusterRanges, NodeRanges []netip.Prefix
	// Interface is the bridge, or the beginning of the names.
	Interface string
}

// longestLink is how long the name of a network link may be, in bytes.
const longestLink = 15

// Apply sets the PodRanges and PodInterfaces of a node. No ranges is no error:
// the node cannot tell Pods then.
func (d Detection) Apply(n *Node) error {
	n.PodRanges, n.PodInterfaces = nil, nil
	switch d.Mode {
	case ClusterCIDR, "":
		n.PodRanges = d.ClusterRanges
		return nil
	case NodeCIDR:
		n.PodRanges = d.NodeRanges
		return nil
	case BridgeInterface, InterfaceNamePrefix:
	default:
		return fmt.Errorf("detection mode %q is not known: choose %s, %s, %s or %s", d.Mode, ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix)
	}
	if !isLinkName(d.Interface) {
		return fmt.Errorf("detection mode %s: %q is no name of a network link: give 1 to %d letters, digits, dots, dashes or underscores", d.Mode, d.Interface, longestLink)
	}
	name := d.Interface
	if d.Mode == InterfaceNamePrefix {
		name += "+"
	}
	n.PodInterfaces = []string{name}
	return nil
}

// isLinkName is narrower than the kernel is: what is left out could mean
// something to a tool that reads rules.
func isLinkName(name string) bool {
	for _, c := range []byte(name) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return name != "" && name[0] != '-' && len(name) <= longestLink
}
