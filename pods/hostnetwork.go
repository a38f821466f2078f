package pods

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/podnet"
)

// A Pod with hostNetwork lives in the node's network: nothing is made for it and
// nothing taken away, and its addresses are the node's. All that differs for it is
// in this file.

func inHostNetwork(p *corev1.Pod) bool { return p != nil && p.Spec.HostNetwork }

// requests asks for the networks of Pods that get one.
func (r *Runtime) requests(pods []*corev1.Pod) []podnet.Request {
	var out []podnet.Request
	for _, p := range pods {
		if !inHostNetwork(p) {
			out = append(out, r.request(p, false))
		}
	}
	return out
}

// addresses are those of a Pod whose network is net.
func (r *Runtime) addresses(p *corev1.Pod, net podnet.Network) []netip.Addr {
	if inHostNetwork(p) {
		return r.cfg.HostAddrs
	}
	return net.Addrs
}

// home is the inode of the network namespace that a Pod lives in, 0 when there is
// none. The object may be nil, when its file is lost.
func (r *Runtime) home(p *corev1.Pod, name string) uint64 {
	if !inHostNetwork(p) {
		return inodeOf(r.cfg.Net.Path(networkOf(name)))
	}
	id, err := podnet.NamespaceID()
	if err != nil {
		return 0
	}
	return id
}

// inside calls f in the network namespace of a Pod.
func (r *Runtime) inside(p *corev1.Pod, f func() error) error {
	if inHostNetwork(p) {
		return f()
	}
	return podnet.Do(r.cfg.Net.Path(NetworkName(p.Namespace, p.Name)), f)
}

// warnAddress tells of a Pod in the node's network that has no address there.
func (c *creation) warnAddress(p *corev1.Pod) {
	if len(c.runtime.cfg.HostAddrs) == 0 {
		c.problem(p, "spec.hostNetwork", "this node reaches the rest of the world from no address, so the Pod has none, and is no endpoint: give the node an address and a default route", true)
	}
}
