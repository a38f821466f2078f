package dns

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// service is what the records of one Service are made of. It is never changed once
// it stands in a zone.
type service struct {
	name, namespace string
	// exists is false while only EndpointSlices of that name are known.
	exists bool
	// external is of type ExternalName: an alias, and nothing else. One without alias
	// has no name.
	external bool
	alias    string
	// headless says that its own name stands for its endpoints.
	headless bool
	// publish says that endpoints count before they are ready.
	publish bool
	vips    []netip.Addr
	ports   []port
	slices  []*slice // sorted by name
	// repeats says that an endpoint address occurs more than once.
	repeats bool
}

// slice is an EndpointSlice.
type slice struct {
	name  string
	ports []port
	// addrs are its endpoints' addresses: those that are ready first, and how many
	// these are.
	addrs []netip.Addr
	ready int
	// hosts are the endpoints' hostnames in lower case, "" where one has none; nil when none has.
	hosts []string
}

// port is a Service's or an endpoint's.
type port struct {
	name     string // "" when it has none
	protocol string // "tcp"
	number   uint16
}

// newService returns the Service without endpoints.
func newService(obj *corev1.Service) *service {
	s := &service{name: obj.Name, namespace: obj.Namespace, exists: true, publish: obj.Spec.PublishNotReadyAddresses}
	if obj.Spec.Type == corev1.ServiceTypeExternalName {
		s.external = true
		// an address is no name: nothing can point to it
		if _, err := netip.ParseAddr(obj.Spec.ExternalName); err != nil {
			s.alias = obj.Spec.ExternalName
		}
		return s
	}
	ips := obj.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{obj.Spec.ClusterIP}
	}
	s.headless = ips[0] == corev1.ClusterIPNone
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(ip); err == nil {
			s.vips = append(s.vips, addr.Unmap())
		}
	}
	for _, p := range obj.Spec.Ports {
		s.ports = append(s.ports, newPort(p.Name, p.Protocol, p.Port))
	}
	return s
}

func newPort(name string, protocol corev1.Protocol, number int32) port {
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	return port{name: strings.ToLower(name), protocol: lowerProtocol(protocol), number: uint16(number)}
}

// lowerProtocol saves a string for each port of the cluster.
func lowerProtocol(p corev1.Protocol) string {
	switch p {
	case corev1.ProtocolTCP:
		return "tcp"
	case corev1.ProtocolUDP:
		return "udp"
	}
	return strings.ToLower(string(p))
}

// newSlice keeps of an EndpointSlice what records are made of. Addresses that are
// none (those of the address type FQDN) have no records.
func newSlice(obj *discoveryv1.EndpointSlice) *slice {
	s := &slice{name: obj.Name}
	for _, p := range obj.Ports {
		if p.Port == nil {
			continue
		}
		var name string
		var protocol corev1.Protocol
		if p.Name != nil {
			name = *p.Name
		}
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		s.ports = append(s.ports, newPort(name, protocol, *p.Port))
	}
	s.addrs = make([]netip.Addr, 0, len(obj.Endpoints))
	for _, ready := range []bool{true, false} {
		for i := range obj.Endpoints {
			e := &obj.Endpoints[i]
			if ready == (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				s.add(e)
			}
		}
		if ready {
			s.ready = len(s.addrs)
		}
	}
	return s
}

// add appends an endpoint's addresses.
func (s *slice) add(e *discoveryv1.Endpoint) {
	for _, a := range e.Addresses {
		addr, err := netip.ParseAddr(a)
		if err != nil {
			continue
		}
		s.addrs = append(s.addrs, addr.Unmap())
		if e.Hostname != nil && *e.Hostname != "" && s.hosts == nil {
			s.hosts = make([]string, len(s.addrs)-1, cap(s.addrs))
		}
		if s.hosts == nil {
			continue
		}
		host := ""
		if e.Hostname != nil {
			host = strings.ToLower(*e.Hostname)
		}
		s.hosts = append(s.hosts, host)
	}
}

// is says whether this is the key of the Service.
func (s *service) is(key string) bool { return key == s.name+"."+s.namespace }

// withSlice returns a copy that has this slice, and none else of its name; a nil slice
// removes.
func (s *service) withSlice(name string, sl *slice) *service {
	next := *s
	next.slices = slices.Clone(s.slices)
	i, found := slices.BinarySearchFunc(next.slices, name, func(a *slice, name string) int { return strings.Compare(a.name, name) })
	switch {
	case sl == nil && found:
		next.slices = slices.Delete(next.slices, i, i+1)
	case sl != nil && found:
		next.slices[i] = sl
	case sl != nil:
		next.slices = slices.Insert(next.slices, i, sl)
	}
	return &next
}

// served are the endpoints of a slice that have names: by their number.
func (s *service) served(sl *slice) int {
	if s.publish {
		return len(sl.addrs)
	}
	return sl.ready
}

// endpoint is one address with a name below its Service.
type endpoint struct {
	addr netip.Addr
	host string // the hostname given to it, or ""
	in   *slice
}

// label is the endpoint's own label: the hostname given, else its address with dashes.
func (e endpoint) label() string {
	if e.host != "" {
		return e.host
	}
	return dashed(e.addr)
}

// endpoints yields those that have names.
func (s *service) endpoints(yield func(endpoint) bool) {
	if !s.exists || s.external {
		return
	}
	for _, sl := range s.slices {
		for i := range sl.addrs[:s.served(sl)] {
			if !yield(sl.at(i)) {
				return
			}
		}
	}
}

func (sl *slice) at(i int) endpoint {
	e := endpoint{addr: sl.addrs[i], in: sl}
	if sl.hosts != nil {
		e.host = sl.hosts[i]
	}
	return e
}

// shown says whether the Service's own name exists. A headless one without endpoints has
// no name: specification 2.4.1.
func (s *service) shown() bool {
	switch {
	case !s.exists:
		return false
	case s.external:
		return s.alias != ""
	case len(s.vips) > 0:
		return true
	}
	return slices.ContainsFunc(s.slices, func(sl *slice) bool { return s.served(sl) > 0 })
}

// addresses yields all that the Service has, ready or not: what owners is indexed by.
func (s *service) addresses(yield func(netip.Addr) bool) {
	for _, v := range s.vips {
		if !yield(v) {
			return
		}
	}
	for _, sl := range s.slices {
		for _, a := range sl.addrs {
			if !yield(a) {
				return
			}
		}
	}
}

// total is the number of these.
func (s *service) total() int {
	n := len(s.vips)
	for _, sl := range s.slices {
		n += len(sl.addrs)
	}
	return n
}
