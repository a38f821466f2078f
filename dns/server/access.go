package server

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// access says who is served.
type access struct {
	all    bool
	ranges []netip.Prefix
	own    []netip.Addr
	// nodes are the addresses and Pod ranges of each Node; permits all of them.
	nodes   map[string][]netip.Prefix
	permits atomic.Pointer[[]netip.Prefix]
}

func newAccess(cfg Config) *access {
	a := &access{all: cfg.AllowAll, ranges: cfg.Allow, nodes: map[string][]netip.Prefix{}, own: ownAddresses()}
	a.permits.Store(&a.ranges)
	return a
}

// allows tells whether a client is served.
func (a *access) allows(client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	if a.all || client.IsLoopback() || slices.Contains(a.own, client) {
		return true
	}
	for _, r := range *a.permits.Load() {
		if r.Contains(client) {
			return true
		}
	}
	return false
}

// follow takes note of Nodes that came, changed or went.
func (a *access) follow(events []cluster.Event) {
	changed := false
	for _, e := range events {
		if e.Object.Kind != cluster.Node {
			continue
		}
		changed = true
		if node, ok := e.New.(*corev1.Node); ok {
			a.nodes[e.Object.Name] = rangesOf(node)
		} else {
			delete(a.nodes, e.Object.Name)
		}
	}
	if !changed {
		return
	}
	all := slices.Clone(a.ranges)
	for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
		all = append(all, a.nodes[name]...)
	}
	a.permits.Store(&all)
}

// rangesOf are the addresses of a Node and of its Pods. What is no address (a host
// name, say) is left out.
func rangesOf(node *corev1.Node) []netip.Prefix {
	var out []netip.Prefix
	for _, at := range node.Status.Addresses {
		if addr, err := netip.ParseAddr(at.Address); err == nil {
			out = append(out, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
		}
	}
	for _, cidr := range node.Spec.PodCIDRs {
		if r, err := netip.ParsePrefix(cidr); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// ownAddresses are those of this machine, or Pod.
func ownAddresses() []netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range addrs {
		if r, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, r.Addr().Unmap())
		}
	}
	return out
}
