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
	// hints say which nodes and zones the endpoint is meant for. May be nil.
	hints *discoveryv1.EndpointHints
}

// better orders two copies of one endpoint: negative when a is to be believed.
func (a candidate) better(b candidate) int {
	return cmp.Or(
		compareBool(!a.terminating, !b.terminating),
		compareBool(a.ready, b.ready),
		compareBool(a.serving, b.serving),
		compareBool(a.here, b.here),
		compareBool(a.Local, b.Local),
		cmp.Compare(b.Weight, a.Weight),
		cmp.Compare(a.Name, b.Name),
		compareHints(a.hints, b.hints))
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
func (p *port) find(from []*discoveryv1.EndpointSlice, found *findings) {
	all := p.candidates(from, found)
	p.everywhere.endpoints = usable(all, func(ready []candidate) []candidate { return near(p.node, ready) })
	p.anywhere = len(p.everywhere.endpoints) > 0
	if p.internalLocal || p.externalLocal {
		here := slices.DeleteFunc(all, func(c candidate) bool { return !c.here })
		p.here.endpoints = usable(here, func(ready []candidate) []candidate { return ready })
	}
}

// candidates returns the endpoints that slices have for the port, usable or
// not, sorted by address, each once.
func (p *port) candidates(from []*discoveryv1.EndpointSlice, found *findings) []candidate {
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
		weights := weightsOf(slice, found)
		for i := range slice.Endpoints {
			if c, ok := p.candidate(slice, i, found); ok {
				c.Addr = netip.AddrPortFrom(c.Addr.Addr(), number)
				c.Weight = weights.of(i)
				all = append(all, c)
			}
		}
	}
	if others && !joined {
		found.portNotFound(p)
	}
	return merge(all)
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

// candidate reads one endpoint of a slice; port and weight are left to the
// caller.
func (p *port) candidate(slice *discoveryv1.EndpointSlice, i int, found *findings) (candidate, bool) {
	ep := &slice.Endpoints[i]
	if len(ep.Addresses) == 0 {
		return candidate{}, false
	}
	addr, err := parseAddr(ep.Addresses[0])
	if err != nil || dataplane.FamilyOf(addr) != dataplane.FamilyOf(p.vip) {
		found.badAddress(slice, i)
		return candidate{}, false
	}
	if addr.IsUnspecified() || addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		found.noHost(slice, i)
		return candidate{}, false
	}
	c := candidate{
		hints:       ep.Hints,
		ready:       ep.Conditions.Ready == nil || *ep.Conditions.Ready,
		serving:     ep.Conditions.Serving == nil || *ep.Conditions.Serving,
		terminating: ep.Conditions.Terminating != nil && *ep.Conditions.Terminating,
	}
	c.here = p.node.Name == "" || ep.NodeName != nil && *ep.NodeName == p.node.Name
	c.Addr = netip.AddrPortFrom(addr, 0)
	c.Local = c.here || ep.NodeName == nil
	if ref := ep.TargetRef; ref != nil && ref.Kind == "Pod" {
		c.Name = ref.Namespace + "/" + ref.Name
	}
	return c, true
}

// merge sorts by address and makes one endpoint of copies.
func merge(all []candidate) []candidate {
	slices.SortFunc(all, func(a, b candidate) int {
		if order := a.Addr.Compare(b.Addr); order != 0 {
			return order
		}
		return a.better(b)
	})
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.Addr == b.Addr })
}

// usable returns the endpoints of a scope that may have new flows: those chosen
// of the ready ones, else those that terminate and still serve. Hints are for
// ready endpoints only; what is leaving is no choice to be made.
func usable(scope []candidate, choose func(ready []candidate) []candidate) []dataplane.Endpoint {
	ready := make([]candidate, 0, len(scope))
	for _, c := range scope {
		if c.ready {
			ready = append(ready, c)
		}
	}
	if len(ready) > 0 {
		return endpointsOf(choose(ready))
	}
	var leaving []candidate
	for _, c := range scope {
		if c.serving && c.terminating {
			leaving = append(leaving, c)
		}
	}
	return endpointsOf(leaving)
}

func endpointsOf(of []candidate) []dataplane.Endpoint {
	out := make([]dataplane.Endpoint, len(of))
	for i, c := range of {
		out[i] = c.Endpoint
	}
	return out
}
