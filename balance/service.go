package balance

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// ProxyNameLabel on a Service says that another proxy serves it.
const ProxyNameLabel = "service.kubernetes.io/service-proxy-name"

// defaultAffinity is how long a client stays with its endpoint when the Service
// does not say.
const defaultAffinity = 3 * time.Hour

// Frontends returns the frontends of one Service on a node, the endpoint sets
// they use, and what is wrong with the Service or its slices. The slices are
// those that belong to the Service; it does not look at their labels for that.
// Frontends of other Services may have the same keys: Join settles that.
func Frontends(node Node, svc *corev1.Service, slices []*discoveryv1.EndpointSlice) ([]dataplane.Frontend, []dataplane.EndpointSet, []cluster.Problem) {
	found := newFindings()
	if !served(svc) {
		found.doorless(svc)
		return nil, nil, found.problems
	}
	shared := readFacts(node, svc, found)
	var frontends []dataplane.Frontend
	var sets []dataplane.EndpointSet
	seen := map[string]bool{}
	for i := range svc.Spec.Ports {
		protocol, ok := readPort(svc, i, found)
		if !ok {
			continue
		}
		for _, vip := range shared.vips {
			p := newPort(shared, i, protocol, vip)
			if seen[p.everywhere.name] {
				found.twice(p)
				continue
			}
			seen[p.everywhere.name] = true
			p.find(slices, found)
			opened := p.open()
			frontends = append(frontends, opened...)
			sets = append(sets, p.sets(opened)...)
		}
	}
	return frontends, sets, found.problems
}

// readPort checks one port of a Service and returns its protocol.
func readPort(svc *corev1.Service, i int, found *findings) (dataplane.Protocol, bool) {
	spec := &svc.Spec.Ports[i]
	protocol, ok := protocolOf(spec.Protocol)
	if !ok {
		found.unknownProtocol(svc, i)
	}
	if !isPort(spec.Port) {
		found.badPort(svc, fmt.Sprintf("spec.ports[%d].port", i), spec.Port)
		return protocol, false
	}
	if spec.NodePort != 0 && !isPort(spec.NodePort) {
		found.badPort(svc, fmt.Sprintf("spec.ports[%d].nodePort", i), spec.NodePort)
	}
	return protocol, ok
}

func isPort(number int32) bool { return number > 0 && number <= 65535 }

// served reports whether this proxy has frontends for the Service.
func served(svc *corev1.Service) bool {
	_, other := svc.Labels[ProxyNameLabel]
	return !other && svc.Spec.Type != corev1.ServiceTypeExternalName &&
		svc.Spec.ClusterIP != "" && svc.Spec.ClusterIP != corev1.ClusterIPNone
}

// clusterIPs parses the Service's addresses: at most one of each family.
func clusterIPs(svc *corev1.Service, found *findings) []netip.Addr {
	given, path := svc.Spec.ClusterIPs, "spec.clusterIPs[%d]"
	if len(given) == 0 {
		given, path = []string{svc.Spec.ClusterIP}, "spec.clusterIP"
	}
	var vips []netip.Addr
	for i, text := range given {
		addr, err := parseAddr(text)
		if err == nil && addr.IsUnspecified() {
			err = fmt.Errorf("%q is no address of its own", text)
		}
		if err == nil {
			vips = append(vips, addr)
			continue
		}
		field := path
		if len(svc.Spec.ClusterIPs) > 0 {
			field = fmt.Sprintf(path, i)
		}
		found.add(cluster.Problem{
			Object:  refOf(svc),
			Field:   field,
			Message: fmt.Sprintf("%v; the Service has no frontend there: write the address in its usual form, or leave it out to be given one", err),
		})
	}
	return vips
}

// parseAddr accepts what a Table may hold: no zone, and no IPv4 address in IPv6
// clothing, which different parts of a kernel read differently.
func parseAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		return netip.Addr{}, fmt.Errorf("%q is no IP address", text)
	}
	return addr, nil
}

// protocolOf translates the protocol of a port; empty means TCP, as in the API.
func protocolOf(p corev1.Protocol) (dataplane.Protocol, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return dataplane.TCP, true
	case corev1.ProtocolUDP:
		return dataplane.UDP, true
	case corev1.ProtocolSCTP:
		return dataplane.SCTP, true
	}
	return 0, false
}

func refOf(svc *corev1.Service) cluster.Ref {
	return cluster.MakeRef(cluster.Service, svc.Namespace, svc.Name)
}
