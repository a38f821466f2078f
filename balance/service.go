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

// Node is the node that a table is made for.
type Node struct {
	// Name is compared with the nodeName of endpoints. Empty: not known, and
	// every endpoint may live here.
	Name string
	// PodRanges, ServiceRanges and Addrs go into the table as they are; see
	// dataplane.Node.
	PodRanges     []netip.Prefix
	ServiceRanges []netip.Prefix
	Addrs         []netip.Addr
}

// Frontends returns the frontends of one Service on a node, the endpoint sets
// they use, and what is wrong with the Service or its slices. The slices are
// those that belong to the Service; it does not look at their labels for that.
// Frontends of other Services may have the same keys: Build settles that.
func Frontends(node Node, svc *corev1.Service, slices []*discoveryv1.EndpointSlice) ([]dataplane.Frontend, []dataplane.EndpointSet, []cluster.Problem) {
	if !served(svc) {
		return nil, nil, nil
	}
	vips, problems := clusterIPs(svc)
	found := newFindings(problems)
	var frontends []dataplane.Frontend
	var sets []dataplane.EndpointSet
	seen := map[string]bool{}
	for i := range svc.Spec.Ports {
		protocol, ok := protocolOf(svc.Spec.Ports[i].Protocol)
		if !ok {
			found.unknownProtocol(svc, i)
			continue
		}
		for _, vip := range vips {
			p := newPort(svc, i, protocol, vip)
			if seen[p.everywhere.name] {
				found.twice(p)
				continue
			}
			seen[p.everywhere.name] = true
			p.find(node, slices, found)
			opened := p.open()
			frontends = append(frontends, opened...)
			sets = append(sets, p.sets(opened)...)
		}
	}
	return frontends, sets, found.problems
}

// served reports whether this proxy has frontends for the Service.
func served(svc *corev1.Service) bool {
	_, other := svc.Labels[ProxyNameLabel]
	return !other && svc.Spec.Type != corev1.ServiceTypeExternalName &&
		svc.Spec.ClusterIP != "" && svc.Spec.ClusterIP != corev1.ClusterIPNone
}

// clusterIPs parses the Service's addresses: at most one of each family.
func clusterIPs(svc *corev1.Service) ([]netip.Addr, []cluster.Problem) {
	given, path := svc.Spec.ClusterIPs, "spec.clusterIPs[%d]"
	if len(given) == 0 {
		given, path = []string{svc.Spec.ClusterIP}, "spec.clusterIP"
	}
	var vips []netip.Addr
	var problems []cluster.Problem
	for i, text := range given {
		addr, err := parseAddr(text)
		if err == nil {
			vips = append(vips, addr)
			continue
		}
		field := path
		if len(svc.Spec.ClusterIPs) > 0 {
			field = fmt.Sprintf(path, i)
		}
		problems = append(problems, cluster.Problem{
			Object:  refOf(svc),
			Field:   field,
			Message: fmt.Sprintf("%v; the Service has no frontend there: write the address in its usual form, or leave it out to be given one", err),
		})
	}
	return vips, problems
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

// affinityOf returns how long a client stays with its endpoint; 0: not at all.
func affinityOf(svc *corev1.Service) time.Duration {
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	config := svc.Spec.SessionAffinityConfig
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return defaultAffinity
	}
	return time.Duration(*config.ClientIP.TimeoutSeconds) * time.Second
}

func refOf(svc *corev1.Service) cluster.Ref {
	return cluster.MakeRef(cluster.Service, svc.Namespace, svc.Name)
}
