package balance

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The words that NodePortAddrs knows beside ranges.
const (
	allAddrs      = "all"
	primaryAddrs  = "primary"
	loopbackAddrs = "localhost"
)

// NodePortAddrs returns the addresses on which node ports answer, for Node.Addrs:
// those of a node's own addresses that the list wants, sorted. The list has
// ranges and words:
//
//	all          every address but loopback ones; also what 0.0.0.0/0 and ::/0
//	             say, and what holds for a family that has no range in the list
//	primary      the addresses of the Node object
//	localhost    loopback addresses; a range within 127.0.0.0/8 says so too
//
// An empty list means all. Loopback needs to be asked for, because serving it
// makes the kernel accept what it drops otherwise. A word that is none is an
// error that says what to write.
func NodePortAddrs(wanted []string, own, primary []netip.Addr) ([]netip.Addr, error) {
	w, err := readWanted(wanted, primary)
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range own {
		a = a.Unmap().WithZone("")
		if a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && w.has(a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// WithoutBalancers returns a node's own addresses but for those of load balancers,
// which some of them put on a link of the node: nobody means the node with them,
// so that no NodePort is to answer there. An address by which the node is known
// is its own all the same.
func WithoutBalancers(own, primary []netip.Addr, services []*corev1.Service) []netip.Addr {
	balancers := map[netip.Addr]bool{}
	for _, svc := range services {
		for _, in := range svc.Status.LoadBalancer.Ingress {
			if a, err := parseAddr(in.IP); err == nil && !slices.Contains(primary, a) {
				balancers[a] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(own), func(a netip.Addr) bool { return balancers[a] })
}

// wantedAddrs is a list of wanted addresses, understood.
type wantedAddrs struct {
	loopback bool
	// all and ranges are by family; see familyIndex.
	all    [2]bool
	ranges [2][]netip.Prefix
}

func familyIndex(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

func readWanted(wanted []string, primary []netip.Addr) (*wantedAddrs, error) {
	w := &wantedAddrs{}
	words := false
	for _, text := range wanted {
		switch text {
		case allAddrs:
			w.all = [2]bool{true, true}
		case loopbackAddrs:
			w.loopback = true
		case primaryAddrs:
			for _, a := range primary {
				w.add(netip.PrefixFrom(a, a.BitLen()))
			}
		default:
			p, err := netip.ParsePrefix(text)
			if err != nil || p.Addr().Is4In6() {
				return nil, fmt.Errorf("node port address %q is neither a range nor one of %s, %s, %s: write it like 192.0.2.0/24", text, allAddrs, primaryAddrs, loopbackAddrs)
			}
			w.add(p.Masked())
			continue
		}
		words = true
	}
	for i := range w.all {
		if len(w.ranges[i]) == 0 && !words {
			w.all[i] = true
		}
	}
	return w, nil
}

func (w *wantedAddrs) add(p netip.Prefix) {
	i := familyIndex(p.Addr())
	w.ranges[i] = append(w.ranges[i], p)
	w.all[i] = w.all[i] || p.Bits() == 0
}

func (w *wantedAddrs) has(a netip.Addr) bool {
	i := familyIndex(a)
	if !a.IsLoopback() && w.all[i] || a.IsLoopback() && w.loopback {
		return true
	}
	return slices.ContainsFunc(w.ranges[i], func(p netip.Prefix) bool { return p.Bits() > 0 && p.Contains(a) })
}
