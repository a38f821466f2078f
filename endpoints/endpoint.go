package endpoints

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/endpointslice/util"
)

// hasEndpoint reports whether the Pod can be an endpoint at all: it has an
// address and has not ended. Terminating Pods are endpoints, marked as such;
// Pods on the host's network are endpoints like others.
func hasEndpoint(p *corev1.Pod) bool { return util.ShouldPodBeInEndpoints(p, true) }

// isReady reports whether the Pod serves. A Pod without any condition but with
// an address is a manifest that says where somebody else's Pod lives: nobody
// will ever write its conditions, and it counts as ready. Once there are
// conditions, Ready decides.
func isReady(p *corev1.Pod) bool {
	return len(p.Status.Conditions) == 0 || util.IsPodReady(p)
}

// sameEndpoint reports whether two states of a Pod, its labels aside, make the
// same endpoint in every Service. It must look at all that makeEndpoint and
// targetPort look at.
func sameEndpoint(a, b *corev1.Pod) bool {
	return hasEndpoint(a) == hasEndpoint(b) &&
		isReady(a) == isReady(b) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.Status.PodIP == b.Status.PodIP &&
		slices.Equal(a.Status.PodIPs, b.Status.PodIPs) &&
		a.UID == b.UID &&
		a.Spec.NodeName == b.Spec.NodeName &&
		a.Spec.Hostname == b.Spec.Hostname &&
		a.Spec.Subdomain == b.Spec.Subdomain &&
		sameWeight(a, b) &&
		slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, samePorts) &&
		slices.EqualFunc(a.Spec.InitContainers, b.Spec.InitContainers, samePorts)
}

func samePorts(a, b corev1.Container) bool {
	return isSidecar(a) == isSidecar(b) && slices.Equal(a.Ports, b.Ports)
}

// addresses returns the Pod's addresses of one family in canonical form. A
// manifest may carry podIP alone; the API server always fills podIPs.
func addresses(p *corev1.Pod, family discoveryv1.AddressType) []string {
	ips := p.Status.PodIPs
	if len(ips) == 0 {
		ips = []corev1.PodIP{{IP: p.Status.PodIP}}
	}
	var out []string
	for _, ip := range ips {
		addr, err := netip.ParseAddr(ip.IP)
		if err == nil && addressType(addr) == family {
			out = append(out, addr.Unmap().String())
		}
	}
	return out
}

func addressType(a netip.Addr) discoveryv1.AddressType {
	if a.Unmap().Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

// makeEndpoint describes the Pod as an endpoint of the Service. Only
// publishNotReadyAddresses makes a Pod that does not serve, or terminates, ready.
func makeEndpoint(svc *corev1.Service, p *corev1.Pod, addrs []string) discoveryv1.Endpoint {
	serving, terminating := isReady(p), p.DeletionTimestamp != nil
	ep := discoveryv1.Endpoint{
		Addresses: addrs,
		Conditions: discoveryv1.EndpointConditions{
			Ready:       new(svc.Spec.PublishNotReadyAddresses || serving && !terminating),
			Serving:     &serving,
			Terminating: &terminating,
		},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
	}
	if p.Spec.NodeName != "" {
		ep.NodeName = &p.Spec.NodeName
	}
	if util.ShouldSetHostname(p, svc) {
		ep.Hostname = &p.Spec.Hostname
	}
	return ep
}

// ports resolves the Service's ports on one Pod, in their order. A port whose
// name no container of the Pod has is left out: other Pods may have it.
func ports(svc *corev1.Service, p *corev1.Pod) []discoveryv1.EndpointPort {
	out := make([]discoveryv1.EndpointPort, 0, len(svc.Spec.Ports))
	for i := range svc.Spec.Ports {
		sp := &svc.Spec.Ports[i]
		if number := targetPort(sp, p); number != 0 {
			out = append(out, discoveryv1.EndpointPort{
				Name: &sp.Name, Protocol: &sp.Protocol, Port: &number, AppProtocol: sp.AppProtocol,
			})
		}
	}
	return out
}

// targetPort returns the number a Service port has on one Pod; 0: none. A name
// means the first container port of that name and protocol.
func targetPort(sp *corev1.ServicePort, p *corev1.Pod) int32 {
	if sp.TargetPort.Type == intstr.Int {
		return sp.TargetPort.IntVal
	}
	for _, c := range p.Spec.Containers {
		if number := namedPort(c, sp); number != 0 {
			return number
		}
	}
	for _, c := range p.Spec.InitContainers {
		if number := namedPort(c, sp); number != 0 && isSidecar(c) {
			return number
		}
	}
	return 0
}

func namedPort(c corev1.Container, sp *corev1.ServicePort) int32 {
	for _, cp := range c.Ports {
		if cp.Name == sp.TargetPort.StrVal && cp.Protocol == sp.Protocol {
			return cp.ContainerPort
		}
	}
	return 0
}

// isSidecar: an init container that keeps running beside the others.
func isSidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
