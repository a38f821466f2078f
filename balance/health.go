package balance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// HealthCheck is what a node answers load balancers that ask whether it is any
// use for a Service with externalTrafficPolicy Local: yes when Local is not 0.
type HealthCheck struct {
	Service types.NamespacedName
	// Port is the TCP port of the node on which to answer.
	Port uint16
	// Local is the number of ready endpoints on this node, however many ports
	// they serve and addresses they have. Terminating ones do not count, even
	// while they have the traffic: load balancers are to turn away first.
	Local int
}

// HealthCheckOf returns the health check of a Service, if it has one.
func HealthCheckOf(node Node, svc *corev1.Service, given []*discoveryv1.EndpointSlice) (HealthCheck, bool) {
	port := svc.Spec.HealthCheckNodePort
	if !served(svc) || !isPort(port) || svc.Spec.Type != corev1.ServiceTypeLoadBalancer ||
		svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return HealthCheck{}, false
	}
	check := HealthCheck{Service: types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}, Port: uint16(port)}
	f := readFacts(node, svc, newFindings())
	for _, vip := range f.vips {
		ready := map[netip.Addr]bool{}
		for i := range svc.Spec.Ports {
			protocol, ok := protocolOf(svc.Spec.Ports[i].Protocol)
			if !ok {
				continue
			}
			p := newPort(f, i, protocol, vip)
			for _, c := range p.candidates(given, newFindings()) {
				if c.here && c.ready {
					ready[c.Addr.Addr()] = true
				}
			}
		}
		// A Pod with an address of each family is one endpoint.
		check.Local = max(check.Local, len(ready))
	}
	return check, true
}

// HealthChecks returns the health checks of all Services, by port, each port
// once. Where two Services claim one the older has it, and what is somebody's
// TCP node port reaches no listener; both are problems.
func HealthChecks(node Node, services []*corev1.Service, slicesOf func(types.NamespacedName) []*discoveryv1.EndpointSlice) ([]HealthCheck, []cluster.Problem) {
	var out []HealthCheck
	var problems []cluster.Problem
	owners := nodePortOwners(services)
	for _, svc := range slices.SortedFunc(slices.Values(services), older) {
		check, ok := HealthCheckOf(node, svc, slicesOf(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}))
		if !ok {
			continue
		}
		if owner := owners[check.Port]; owner != nil {
			problems = append(problems, cluster.Problem{
				Object: refOf(svc), Field: "spec.healthCheckNodePort",
				Message: fmt.Sprintf("port %d already belongs to %s, load balancers get no answer for this Service: choose another port, or leave it out to be given one", check.Port, refOf(owner)),
			})
			continue
		}
		owners[check.Port] = svc
		out = append(out, check)
	}
	slices.SortFunc(out, func(a, b HealthCheck) int { return cmp.Compare(a.Port, b.Port) })
	return out, problems
}

// nodePortOwners returns the Services by their TCP node ports.
func nodePortOwners(services []*corev1.Service) map[uint16]*corev1.Service {
	owners := map[uint16]*corev1.Service{}
	for _, svc := range slices.SortedFunc(slices.Values(services), older) {
		typed := svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer
		if !served(svc) || !typed {
			continue
		}
		for _, p := range svc.Spec.Ports {
			protocol, ok := protocolOf(p.Protocol)
			if ok && protocol == dataplane.TCP && isPort(p.NodePort) && owners[uint16(p.NodePort)] == nil {
				owners[uint16(p.NodePort)] = svc
			}
		}
	}
	return owners
}
