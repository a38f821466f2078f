package podnet

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Network is what one Pod has got.
type Network struct {
	// Name is the name of its network namespace.
	Name string `json:"name"`
	// For is whom it serves, for people: "default/web-1".
	For string `json:"for,omitempty"`
	// Addrs are its addresses, one for each Pod range, in that order.
	Addrs []netip.Addr `json:"addrs"`
	// HostLink is the node's end of its veth pair. Its own end is eth0.
	HostLink string `json:"hostLink"`
}

// record is what we have made or are about to make: the leases of addresses, and
// the memory of ownership for what can carry no mark. It is written before the
// kernel is touched, and shortened only afterwards.
type record struct {
	// Boot is the boot the record belongs to: links and mounts end with it.
	Boot string `json:"boot"`
	// Bridge is the bridge that we make.
	Bridge string `json:"bridge,omitempty"`
	// Dirs are the directories that we make.
	Dirs []string `json:"dirs,omitempty"`
	// Mounted: we make the namespaces' directory a mount of its own.
	Mounted bool `json:"mounted,omitempty"`
	// Redirects is net.ipv4.conf.all.accept_redirects as it was: the kernel sets
	// it with every change of ip_forward.
	Redirects string `json:"redirects,omitempty"`
	// Last is the address given last, by range.
	Last map[netip.Prefix]netip.Addr `json:"last,omitempty"`
	// Networks are the Pods' networks by name.
	Networks map[string]Network `json:"networks,omitempty"`
}

// clone copies a record deeply enough for allocate.
func (r record) clone() record {
	r.Dirs = slices.Clone(r.Dirs)
	r.Last = maps.Clone(r.Last)
	if r.Last == nil {
		r.Last = map[netip.Prefix]netip.Addr{}
	}
	r.Networks = maps.Clone(r.Networks)
	if r.Networks == nil {
		r.Networks = map[string]Network{}
	}
	return r
}

// allocate gives a network an address of each range, and records them. The
// addresses that a network of that name had stay taken until all of this is
// done: it never gets them back at once.
func (r record) allocate(name string, ranges []netip.Prefix) ([]netip.Addr, error) {
	taken := r.taken()
	var addrs []netip.Addr
	for _, rng := range ranges {
		a, ok := nextFree(rng, r.Last[rng], taken)
		if !ok {
			return nil, fmt.Errorf("Pod range %s is exhausted (%d networks): give the node a larger one or delete Pods", rng, len(r.Networks))
		}
		addrs = append(addrs, a)
	}
	for i, rng := range ranges {
		r.Last[rng] = addrs[i]
	}
	net := r.Networks[name]
	net.Name, net.Addrs = name, addrs
	r.Networks[name] = net
	return addrs, nil
}

// taken are the addresses that networks have.
func (r record) taken() map[netip.Addr]bool {
	taken := map[netip.Addr]bool{}
	for _, net := range r.Networks {
		for _, a := range net.Addrs {
			taken[a] = true
		}
	}
	return taken
}

// fits reports whether a network has one address of each range, as after an
// unchanged configuration.
func (net Network) fits(ranges []netip.Prefix) bool {
	return slices.EqualFunc(net.Addrs, ranges, func(a netip.Addr, r netip.Prefix) bool { return usable(r, a) })
}

// owner returns the name of the network that has an address, or "".
func (r record) owner(a netip.Addr) string {
	for name, net := range r.Networks {
		if slices.Contains(net.Addrs, a) {
			return name
		}
	}
	return ""
}
