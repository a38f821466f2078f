package balance

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/dataplane"
)

// candidate is an endpoint of a port with what decides whether it is usable.
type candidate struct {
	dataplane.Endpoint
	ready, serving, terminating bool
	// here: the endpoint is known to live on this node. Endpoint.Local also
	// holds for those of which nobody says where they live.
	here bool
}

// better orders two copies of one endpoint: negative when a is to be believed.
func (a candidate) better(b candidate) int {
	return cmp.Or(
		compareBool(!a.terminating, !b.terminating),
		compareBool(a.ready, b.ready),
		compareBool(a.serving, b.serving),
		compareBool(a.here, b.here),
		compareBool(a.Local, b.Local),
		cmp.Compare(a.Name, b.Name))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// find fills the port's scopes from the slices of its Service.
func (p *port) find(node Node, from []*discoveryv1.EndpointSlice, found *findings) {
	var all []candidate
	others, joined := false, false
	for _, slice := range from {
		if !p.reads(slice) {
			continue
		}
		number, ok := p.join(slice)
		joined = joined || ok
		if !ok {
			others = others || len(slice.Endpoints) > 0
			continue
		}
		all = slices.Grow(all, len(slice.Endpoints))
		for i := range slice.Endpoints {
			if c, ok := p.candidate(node, slice, i, found); ok {
				c.Addr = netip.AddrPortFrom(c.Addr.Addr(), number)
				all = append(all, c)
			}
		}
	}
	if others && !joined {
		found.portNotFound(p)
	}
	all = merge(all)
	p.everywhere.endpoints = usable(all)
	p.anywhere = len(p.everywhere.endpoints) > 0
	if p.local {
		p.here.endpoints = usable(slices.DeleteFunc(all, func(c candidate) bool { return !c.here }))
	}
}

// reads reports whether a slice may have endpoints for the port.
func (p *port) reads(slice *discoveryv1.EndpointSlice) bool {
	_, headless := slice.Labels[corev1.IsHeadlessService]
	return !headless && string(slice.AddressType) == dataplane.FamilyOf(p.vip).String()
}

// join returns the number that the port has in a slice: that of the slice's
// port with the same name and protocol.
func (p *port) join(slice *discoveryv1.EndpointSlice) (uint16, bool) {
	for _, sp := range slice.Ports {
		named := sp.Name != nil && *sp.Name == p.spec().Name
		numbered := sp.Port != nil && *sp.Port > 0 && *sp.Port <= 65535
		if !named || !numbered {
			continue
		}
		protocol := corev1.ProtocolTCP
		if sp.Protocol != nil {
			protocol = *sp.Protocol
		}
		if have, ok := protocolOf(protocol); ok && have == p.protocol {
			return uint16(*sp.Port), true
		}
	}
	return 0, false
}

// candidate reads one endpoint of a slice; its port is left to the caller.
func (p *port) candidate(node Node, slice *discoveryv1.EndpointSlice, i int, found *findings) (candidate, bool) {
	ep := &slice.Endpoints[i]
	if len(ep.Addresses) == 0 {
		return candidate{}, false
	}
	addr, err := parseAddr(ep.Addresses[0])
	if err != nil || dataplane.FamilyOf(addr) != dataplane.FamilyOf(p.vip) {
		found.badAddress(slice, i)
		return candidate{}, false
	}
	c := candidate{
		ready:       ep.Conditions.Ready == nil || *ep.Conditions.Ready,
		serving:     ep.Conditions.Serving == nil || *ep.Conditions.Serving,
		terminating: ep.Conditions.Terminating != nil && *ep.Conditions.Terminating,
	}
	c.here = node.Name == "" || ep.NodeName != nil && *ep.NodeName == node.Name
	c.Addr = netip.AddrPortFrom(addr, 0)
	c.Weight = 1
	c.Local = c.here || ep.NodeName == nil
	if ref := ep.TargetRef; ref != nil && ref.Kind == "Pod" {
		c.Name = ref.Namespace + "/" + ref.Name
	}
	return c, true
}

// merge sorts by address and makes one endpoint of copies.
func merge(all []candidate) []candidate {
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(a.Addr.Compare(b.Addr), a.better(b)) })
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.Addr == b.Addr })
}

// usable returns the endpoints of a scope that may have new flows: the ready
// ones, else those that terminate and still serve.
func usable(scope []candidate) []dataplane.Endpoint {
	ready := make([]dataplane.Endpoint, 0, len(scope))
	for _, c := range scope {
		if c.ready {
			ready = append(ready, c.Endpoint)
		}
	}
	if len(ready) > 0 {
		return ready
	}
	var leaving []dataplane.Endpoint
	for _, c := range scope {
		if c.serving && c.terminating {
			leaving = append(leaving, c.Endpoint)
		}
	}
	return leaving
}
