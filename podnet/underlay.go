package podnet

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// What the underlay makes beside the nodes. Neither name can be that of a Pod
// or of a node: those have no "+".
const (
	// DefaultUplink is this machine's link to the nodes.
	DefaultUplink = "toywire0"
	// wireSpace is the namespace of the bridge that joins the nodes.
	wireSpace = "toyproxy+wire"
	// wireBridge is that bridge.
	wireBridge = "wire"
)

// Member is one node of several that stand on one machine.
type Member struct {
	// Name is the node's, and that of its network namespace.
	Name string
	// Addrs are its addresses on the wire, at most one a family.
	Addrs []netip.Addr
	// PodRanges are the ranges of its Pods, at most one a family.
	PodRanges []netip.Prefix
}

// addr returns the address of a family.
func (m Member) addr(f dataplane.Family) (netip.Addr, bool) {
	i := slices.IndexFunc(m.Addrs, func(a netip.Addr) bool { return dataplane.FamilyOf(a) == f })
	if i < 0 {
		return netip.Addr{}, false
	}
	return m.Addrs[i], true
}

// UnderlayConfig says which nodes stand on one machine.
type UnderlayConfig struct {
	Members []Member
	// Uplink is the name of this machine's link to them. Empty: DefaultUplink.
	Uplink string
	// MTU of all links, in bytes. 0: DefaultMTU.
	MTU int
	// StateDir holds the record underlay.json. Empty: DefaultStateDir.
	StateDir string
	// NetnsDir holds the named namespaces. Empty: DefaultNetnsDir.
	NetnsDir string
}

// Underlay is the network between nodes that are network namespaces of one
// machine: a bridge in a namespace of its own, to which each node has a link eth0
// with its addresses, and this machine one as well. Nodes route each other's Pod
// ranges to each other, and all else to this machine, which is a client outside of
// the cluster like any other; it routes nothing to them.
//
// The bridge is not this machine's own: what passes over it must not depend on
// whether the machine's rules look at bridged packets.
//
// Its methods work in the network namespace of the calling thread, which is the
// machine.
type Underlay struct {
	cfg  UnderlayConfig
	node *Node
}

// NewUnderlay checks a configuration, fills in defaults and returns the underlay.
func NewUnderlay(cfg UnderlayConfig) (*Underlay, error) {
	cfg.Uplink = cmp.Or(cfg.Uplink, DefaultUplink)
	if err := checkLinkName(cfg.Uplink); err != nil {
		return nil, fmt.Errorf("uplink: %w", err)
	}
	node, err := New(Config{StateDir: cfg.StateDir, NetnsDir: cfg.NetnsDir, MTU: cfg.MTU})
	if err != nil {
		return nil, err
	}
	cfg.MTU = node.cfg.MTU
	cfg.Members = slices.SortedFunc(slices.Values(cfg.Members), func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	for i, m := range cfg.Members {
		for _, f := range m.Faults(cfg.Members[:i], nil) {
			err = errors.Join(err, fmt.Errorf("Node %s: %s", m.Name, f.Message))
		}
	}
	return &Underlay{cfg, node}, err
}

// lan is the range of neighbours of an address on the wire.
func lan(a netip.Addr) netip.Prefix {
	bits := 24
	if a.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// lans are the ranges that the nodes' addresses lie in, sorted.
func (u *Underlay) lans() []netip.Prefix {
	var out []netip.Prefix
	for _, m := range u.cfg.Members {
		for _, a := range m.Addrs {
			out = append(out, lan(a))
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// outside is this machine's address in a range: the first that no node has.
func (u *Underlay) outside(r netip.Prefix) netip.Addr {
	taken := func(a netip.Addr) bool {
		return slices.ContainsFunc(u.cfg.Members, func(m Member) bool { return slices.Contains(m.Addrs, a) })
	}
	a := r.Addr().Next()
	for taken(a) {
		a = a.Next()
	}
	return a
}

// wayTo are the routes that a node needs: to the Pods of the others by their
// addresses, to others that are no neighbours, and to everything else.
func (u *Underlay) wayTo(m Member) []route {
	var out []route
	for _, a := range m.Addrs {
		f := dataplane.FamilyOf(a)
		for _, other := range u.cfg.Members {
			at, ok := other.addr(f)
			if !ok || other.Name == m.Name {
				continue
			}
			if !lan(a).Contains(at) {
				out = append(out, route{dst: host(at)})
			}
			for _, r := range other.PodRanges {
				if dataplane.FamilyOf(r.Addr()) == f {
					out = append(out, route{dst: r, gateway: at})
				}
			}
		}
		everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if f == dataplane.IPv6 {
			everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		out = append(out, route{dst: everywhere, gateway: u.outside(lan(a))})
	}
	return out
}
