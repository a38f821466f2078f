package endpoints

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ManagedBy is the value of the label endpointslice.kubernetes.io/managed-by on
// slices that this package makes.
const ManagedBy = "toyproxy"

// maxEndpoints is how many endpoints one slice holds at most, as in a cluster.
const maxEndpoints = 100

// group is the endpoints of one family that share one set of ports.
type group struct {
	key       string
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

// slicesFor makes the EndpointSlices of a Service from the Pods it selects, in
// any order, and the zones of nodes: one or more for each family and set of
// ports. It depends on nothing else, so that the same objects always give the
// same slices. A Service
// without any endpoint in a family has one empty slice, as in a cluster.
func slicesFor(svc *corev1.Service, pods []*corev1.Pod, zs zones) []*discoveryv1.EndpointSlice {
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !hasEndpoint(p) })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	var out []*discoveryv1.EndpointSlice
	for _, family := range families(svc) {
		shares := weightsOf(pods, family)
		for _, g := range groups(svc, pods, family) {
			for i := range g.endpoints {
				zs.place(svc, &g.endpoints[i])
			}
			for _, slice := range pack(svc, family, g) {
				slice.Annotations = annotations(slice.Endpoints, shares)
				out = append(out, slice)
			}
		}
	}
	return out
}

// families returns the families the Service has endpoints in. Objects of an API
// server without ipFamilies follow their ClusterIP; headless ones have both.
func families(svc *corev1.Service) []discoveryv1.AddressType {
	var out []discoveryv1.AddressType
	for _, f := range svc.Spec.IPFamilies {
		out = append(out, discoveryv1.AddressType(f))
	}
	if len(out) > 0 {
		return out
	}
	if vip, err := netip.ParseAddr(svc.Spec.ClusterIP); err == nil {
		return []discoveryv1.AddressType{addressType(vip)}
	}
	return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
}

// groups sorts the Pods that have an address of the family by their sets of
// ports, ordered by these. Only a named target port can differ between Pods.
func groups(svc *corev1.Service, pods []*corev1.Pod, family discoveryv1.AddressType) []*group {
	byKey := map[string]*group{}
	var same *group
	for _, p := range pods {
		addrs := addresses(p, family)
		if len(addrs) == 0 {
			continue
		}
		g := same
		if g == nil {
			resolved := ports(svc, p)
			key := portsKey(resolved)
			if g = byKey[key]; g == nil {
				g = &group{key: key, ports: resolved}
				byKey[key] = g
			}
		}
		if !hasNamedTarget(svc) {
			same = g
		}
		g.endpoints = append(g.endpoints, makeEndpoint(svc, p, addrs))
	}
	if len(byKey) == 0 {
		return []*group{{ports: []discoveryv1.EndpointPort{}}}
	}
	return slices.SortedFunc(maps.Values(byKey), func(a, b *group) int { return strings.Compare(a.key, b.key) })
}

func hasNamedTarget(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.TargetPort.Type == intstr.String })
}

// portsKey is equal for equal sets of ports. Ports of one Service always come
// in the Service's order, and appProtocol belongs to the name.
func portsKey(ports []discoveryv1.EndpointPort) string {
	var b strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&b, "%s/%s/%d ", *p.Name, *p.Protocol, *p.Port)
	}
	return b.String()
}

// pack cuts the endpoints of a group into slices of the permitted size.
func pack(svc *corev1.Service, family discoveryv1.AddressType, g *group) []*discoveryv1.EndpointSlice {
	out := []*discoveryv1.EndpointSlice{}
	for n := 0; n == 0 || n*maxEndpoints < len(g.endpoints); n++ {
		part := g.endpoints[n*maxEndpoints : min((n+1)*maxEndpoints, len(g.endpoints))]
		out = append(out, &discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace:       svc.Namespace,
				Name:            sliceName(svc, fmt.Sprintf("%s %s%d", family, g.key, n)),
				Labels:          sliceLabels(svc),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))},
			},
			AddressType: family,
			Endpoints:   slices.Clip(part),
			Ports:       g.ports,
		})
	}
	return out
}

// sliceName is the Service's name and a hash of what tells its slices apart. A
// Service's name has at most 63 characters, and a slice's may have 253.
func sliceName(svc *corev1.Service, contents string) string {
	h := fnv.New64a()
	h.Write([]byte(contents))
	return fmt.Sprintf("%s-%s", svc.Name, strconv.FormatUint(h.Sum64(), 36))
}

// sliceLabels are the Service's own, with the reserved ones set: whose slice it
// is, who made it, and whether the Service is headless.
func sliceLabels(svc *corev1.Service) map[string]string {
	out := maps.Clone(svc.Labels)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, corev1.IsHeadlessService)
	if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		out[corev1.IsHeadlessService] = ""
	}
	out[discoveryv1.LabelServiceName] = svc.Name
	out[discoveryv1.LabelManagedBy] = ManagedBy
	return out
}
