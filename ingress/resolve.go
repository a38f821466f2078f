package ingress

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Reason says why a backend has no endpoints.
type Reason uint8

// The reasons.
const (
	// Usable: there are some.
	Usable Reason = iota
	// NoService: there is no such Service.
	NoService
	// NoPort: the Service has no such port for TCP.
	NoPort
	// NoEndpoints: the Service selects nothing, or nothing that has the port.
	NoEndpoints
	// NotReady: there are endpoints, and none is ready.
	NotReady
	// Refused: the reference is not followed, see Backend.Refused.
	Refused
)

// String returns a sentence's end: "there is no such Service".
func (r Reason) String() string {
	return [...]string{"", "there is no such Service", "the Service has no such TCP port", "the Service has no endpoints",
		"no endpoint is ready", "the reference is not followed"}[r]
}

// Endpoint is one Pod that serves a backend.
type Endpoint struct {
	Address netip.AddrPort
	// Pod is empty for endpoints that no Pod stands behind, Node when it is not known.
	Pod  types.NamespacedName
	Node string
}

// Resolved is what a backend comes to at one moment.
type Resolved struct {
	// Endpoints are those to balance over: all that are ready, of one address
	// family, in order of address. There are none when Reason is not Usable, or
	// when External is set.
	Endpoints []Endpoint
	// External is the name of an ExternalName Service, without a final dot, or an address;
	// ExternalPort goes with it.
	External     string
	ExternalPort uint16
	Protocol     Protocol
	// Affinity is above zero when the Service keeps a client address at its
	// endpoint (sessionAffinity: ClientIP): for that long after its last request.
	Affinity time.Duration
	Reason   Reason
	// Port is the port of the Service, for people; nil with NoService and NoPort, and
	// for an ExternalName Service that declares none.
	Port *corev1.ServicePort
}

// Resolve finds the endpoints of a backend. The Service is nil when there is none; slices of
// other Services are passed over. An endpoint counts when it is ready: not while
// its Pod terminates, unless the Service publishes such addresses.
func Resolve(b Backend, svc *corev1.Service, all []*discoveryv1.EndpointSlice) Resolved {
	if b.Refused != "" {
		return Resolved{Reason: Refused}
	}
	if svc == nil {
		return Resolved{Reason: NoService}
	}
	port := findPort(svc, b)
	out := Resolved{Port: port, Protocol: protocol(b, port)}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return external(out, b, svc)
	}
	if port == nil {
		out.Reason = NoPort
		return out
	}
	out.Affinity = affinity(svc)
	out.Endpoints, out.Reason = endpoints(svc, port, all)
	return out
}

// findPort returns the TCP port of a Service that a backend names, or nil.
func findPort(svc *corev1.Service, b Backend) *corev1.ServicePort {
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if p.Protocol != corev1.ProtocolTCP && p.Protocol != "" {
			continue
		}
		if b.Port != 0 && p.Port == int32(b.Port) || b.Port == 0 && p.Name == b.PortName {
			return p
		}
	}
	return nil
}

// external resolves an alias. It has no proxy that translates ports, so targetPort is
// what is dialled, where it is a number; a Service without ports takes the backend's.
func external(out Resolved, b Backend, svc *corev1.Service) Resolved {
	number := int32(b.Port)
	switch {
	case out.Port != nil && out.Port.TargetPort.Type == intstr.Int && out.Port.TargetPort.IntVal > 0:
		number = out.Port.TargetPort.IntVal
	case out.Port != nil:
		number = out.Port.Port
	case number == 0 || len(svc.Spec.Ports) > 0:
		out.Reason = NoPort
		return out
	}
	out.External = strings.TrimSuffix(svc.Spec.ExternalName, ".")
	out.ExternalPort = uint16(number)
	if out.External == "" {
		out.Reason = NoEndpoints
	}
	return out
}

func affinity(svc *corev1.Service) time.Duration {
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
	}
	return time.Duration(corev1.DefaultClientIPServiceAffinitySeconds) * time.Second
}

// protocol is what an annotation says, or else the appProtocol of the port.
func protocol(b Backend, port *corev1.ServicePort) Protocol {
	if b.Protocol != nil {
		return *b.Protocol
	}
	if port == nil || port.AppProtocol == nil {
		return HTTP1
	}
	switch strings.ToLower(*port.AppProtocol) {
	case "kubernetes.io/h2c", "h2c", "http2", "grpc":
		return H2C
	case "https", "kubernetes.io/wss", "wss", "grpcs":
		return HTTPS
	}
	return HTTP1
}

// endpoints lists what is ready, in the first address family of the Service that has any.
func endpoints(svc *corev1.Service, port *corev1.ServicePort, all []*discoveryv1.EndpointSlice) ([]Endpoint, Reason) {
	var four, six []Endpoint
	reason := NoEndpoints
	for _, s := range all {
		number, ok := slicePort(s, port.Name)
		if !ok || s.Namespace != svc.Namespace || s.Labels[discoveryv1.LabelServiceName] != svc.Name {
			continue
		}
		ready, some := readyOf(s, number)
		if some {
			reason = NotReady
		}
		// What a slice calls its family is not relied upon: the addresses say it.
		for _, ep := range ready {
			if ep.Address.Addr().Is4() {
				four = append(four, ep)
			} else {
				six = append(six, ep)
			}
		}
	}
	first, second := four, six
	if len(svc.Spec.IPFamilies) > 0 && svc.Spec.IPFamilies[0] == corev1.IPv6Protocol {
		first, second = six, four
	}
	if len(first) == 0 {
		first = second
	}
	if len(first) == 0 {
		return nil, reason
	}
	slices.SortFunc(first, func(a, b Endpoint) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(b.Pod.String(), a.Pod.String()))
	})
	return slices.CompactFunc(first, func(a, b Endpoint) bool { return a.Address == b.Address }), Usable
}

// readyOf returns the ready endpoints of a slice, and whether there are any at all.
func readyOf(s *discoveryv1.EndpointSlice, port uint16) (ready []Endpoint, some bool) {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		ep, ok := endpoint(e, port)
		some = some || ok
		if ok && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
			ready = append(ready, ep)
		}
	}
	return ready, some
}

// slicePort returns the number that a port has in a slice: Pods whose named port has
// another number stand in another slice.
func slicePort(s *discoveryv1.EndpointSlice, name string) (uint16, bool) {
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		return 0, false
	}
	for _, p := range s.Ports {
		tcp := p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP
		same := p.Name == nil && name == "" || p.Name != nil && *p.Name == name
		if tcp && same && p.Port != nil && *p.Port > 0 && *p.Port <= 65535 {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

// endpoint reads an endpoint of a slice: its first address counts.
func endpoint(e *discoveryv1.Endpoint, port uint16) (Endpoint, bool) {
	if len(e.Addresses) == 0 {
		return Endpoint{}, false
	}
	addr, err := netip.ParseAddr(e.Addresses[0])
	if err != nil {
		return Endpoint{}, false
	}
	out := Endpoint{Address: netip.AddrPortFrom(addr.Unmap(), port)}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		out.Pod = types.NamespacedName{Namespace: e.TargetRef.Namespace, Name: e.TargetRef.Name}
	}
	if e.NodeName != nil {
		out.Node = *e.NodeName
	}
	return out, true
}

// String returns "Service default/web, port 80", or "port http".
func (b Backend) String() string {
	port := b.PortName
	if b.Port != 0 {
		port = fmt.Sprint(b.Port)
	}
	return fmt.Sprintf("Service %s, port %s", b.Service, port)
}
