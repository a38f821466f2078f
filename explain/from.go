package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
)

// From is who sends a packet.
type From struct {
	// Pod is the Pod that sends; nil for others.
	Pod *corev1.Pod
	// Addr is its address; the zero Addr for a node that nobody knows an address of.
	Addr netip.Addr
	// In is the link by which the packet comes to the node; empty for its own.
	In string
	// Chosen: nobody was named.
	Chosen bool
}

// String returns "Pod default/pod-a (10.244.0.2)", "the node" or "192.0.2.9".
func (f From) String() string {
	switch {
	case f.Pod != nil:
		return fmt.Sprintf("%s (%s)", podName(f.Pod), f.Addr)
	case f.In != "":
		return f.Addr.String()
	case f.Addr.IsValid():
		return fmt.Sprintf("the node (%s)", f.Addr)
	}
	return "the node"
}

// otherLink stands for the link by which a node reaches all others: no rule
// names it.
const otherLink = "uplink"

// From reads who sends: the name of a Pod of a namespace, NAMESPACE/POD, an
// address, or "node". Empty: some Pod, if there is one, else the node.
func (s State) From(text, namespace string, to Target) (From, error) {
	family := dataplane.IPv4
	if to.Key.Addr.IsValid() {
		family = dataplane.FamilyOf(to.Key.Addr)
	}
	switch addr, err := netip.ParseAddr(text); {
	case text == "":
		return s.anybody(namespace, to, family), nil
	case text == "node":
		return s.fromNode(family), nil
	case err == nil && dataplane.FamilyOf(addr) != family:
		return From{}, fmt.Errorf("source %s %w: the target is an %s address", addr, ErrSyntax, family)
	case err == nil:
		return s.fromAddr(addr), nil
	}
	name := strings.TrimPrefix(strings.TrimPrefix(text, "pod/"), "pods/")
	if ns, rest, ok := strings.Cut(name, "/"); ok {
		namespace, name = ns, rest
	}
	var names []string
	for _, p := range s.Objects.Pods {
		if p.Namespace == namespace && p.Name == name {
			return s.fromPod(p, family)
		}
		names = append(names, p.Namespace+"/"+p.Name)
	}
	return From{}, fmt.Errorf("Pod %s/%s %w%s", namespace, name, ErrNotFound, near(namespace+"/"+name, names, "Pod"))
}

func (s State) fromPod(p *corev1.Pod, family dataplane.Family) (From, error) {
	if p.Spec.HostNetwork {
		return s.fromNode(family), nil
	}
	for _, a := range addressesOf(p) {
		if dataplane.FamilyOf(a) == family {
			return From{Pod: p, Addr: a, In: s.linkOf(p)}, nil
		}
	}
	return From{}, fmt.Errorf("%s address of %s %w: it cannot send", family, podName(p), ErrNotFound)
}

// linkOf is the link by which packets of a Pod come to this node.
func (s State) linkOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" && p.Spec.NodeName != s.Node && s.Node != "" {
		return otherLink
	}
	links := s.Table.Node.PodInterfaces
	if len(links) == 0 {
		return s.PodLink
	}
	if prefix, begins := strings.CutSuffix(links[0], "+"); begins {
		return prefix + "0"
	}
	return links[0]
}

// fromAddr is whoever has an address.
func (s State) fromAddr(a netip.Addr) From {
	if p := s.podAt(a); p != nil {
		return From{Pod: p, Addr: a, In: s.linkOf(p)}
	}
	if slices.Contains(s.Own, a) {
		return From{Addr: a}
	}
	return From{Addr: a, In: otherLink}
}

// fromNode is the node itself, with an address that others know it by.
func (s State) fromNode(family dataplane.Family) From {
	for _, a := range s.Own {
		inside := func(p netip.Prefix) bool { return p.Contains(a) }
		if dataplane.FamilyOf(a) == family && !a.IsLoopback() && !a.IsLinkLocalUnicast() &&
			!slices.ContainsFunc(s.Table.Node.PodRanges, inside) && !slices.ContainsFunc(s.Table.Node.ServiceRanges, inside) {
			return From{Addr: a}
		}
	}
	return From{}
}

// anybody is a Pod of this node, best one of the namespace that is no endpoint
// of the target itself, else the node.
func (s State) anybody(namespace string, to Target, family dataplane.Family) From {
	best, rank := s.fromNode(family), 0
	for _, p := range s.Objects.Pods {
		from, err := s.fromPod(p, family)
		if err != nil || from.Pod == nil || from.In == otherLink {
			continue
		}
		r := 1
		if !s.serves(p, to) {
			r += 2
		}
		if p.Namespace == namespace {
			r++
		}
		if r > rank {
			best, rank = from, r
		}
	}
	best.Chosen = true
	return best
}

// serves reports whether a Pod is an endpoint of the target.
func (s State) serves(p *corev1.Pod, to Target) bool {
	fe, ok := s.Table.Frontend(to.Key)
	if !ok {
		return false
	}
	set, _ := s.Table.Set(fe.Routes[dataplane.FromPod].Set)
	return slices.ContainsFunc(set.Endpoints, func(e dataplane.Endpoint) bool {
		return slices.Contains(addressesOf(p), e.Addr.Addr())
	})
}

// Packet is the first packet from one to the other.
func (s State) Packet(to Target, from From) dataplane.Packet {
	return dataplane.Packet{Key: to.Key, Src: from.Addr, In: from.In, Own: s.Own}
}
