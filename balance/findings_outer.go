package balance

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/endpoints"
)

func (f *findings) badPort(svc *corev1.Service, field string, number int32) {
	f.add(cluster.Problem{
		Object: refOf(svc), Field: field,
		Message: fmt.Sprintf("%d is no port number, there is no frontend for it: write a number between 1 and 65535", number),
	})
}

func (f *findings) badVIP(svc *corev1.Service, field string, err error) {
	f.add(cluster.Problem{
		Object: refOf(svc), Field: field,
		Message: fmt.Sprintf("%v; the Service has no frontend there: write an address in its usual form, or remove it", err),
	})
}

// otherFamily: the Service has no endpoints that could serve the address.
func (f *findings) otherFamily(svc *corev1.Service, field string, addr netip.Addr) {
	family := dataplane.FamilyOf(addr)
	f.add(cluster.Problem{
		Object: refOf(svc), Field: field, Warning: true,
		Message: fmt.Sprintf("%s is ignored, because the Service has no %s address: list %s in spec.ipFamilies, or remove the address", addr, family, family),
	})
}

// doorless: without a ClusterIP a Service has no other address either, although
// its author may think so.
func (f *findings) doorless(svc *corev1.Service) {
	if svc.Spec.ClusterIP == corev1.ClusterIPNone && len(svc.Spec.ExternalIPs) > 0 {
		f.add(cluster.Problem{
			Object: refOf(svc), Field: "spec.externalIPs", Warning: true,
			Message: "ignored, because the Service is headless and so has no frontends: leave clusterIP out to have them, or remove the addresses",
		})
	}
}

func (f *findings) unbalanced(svc *corev1.Service, field string) {
	f.add(cluster.Problem{
		Object: refOf(svc), Field: field, Warning: true,
		Message: fmt.Sprintf("ignored, because the Service is of type %s: make it LoadBalancer, or remove the address", svc.Spec.Type),
	})
}

func (f *findings) badRange(svc *corev1.Service, i int) {
	f.add(cluster.Problem{
		Object: refOf(svc), Field: fmt.Sprintf("spec.loadBalancerSourceRanges[%d]", i),
		Message: fmt.Sprintf("%q is no range, nobody is let in by it; load balancer addresses of a family without any other range are not served: write it like 192.0.2.0/24",
			shorten(svc.Spec.LoadBalancerSourceRanges[i])),
	})
}

func (f *findings) oldRanges(svc *corev1.Service) {
	f.add(cluster.Problem{
		Object: refOf(svc), Field: annotation(corev1.AnnotationLoadBalancerSourceRangesKey), Warning: true,
		Message: "ignored, every source may use the load balancer's addresses on this node: write the ranges in spec.loadBalancerSourceRanges",
	})
}

// unrestricted: somebody thought of one family and forgot the other.
func (f *findings) unrestricted(svc *corev1.Service, family dataplane.Family) {
	f.add(cluster.Problem{
		Object: refOf(svc), Field: "spec.loadBalancerSourceRanges", Warning: true,
		Message: fmt.Sprintf("no range is %s, so every %s source may use the load balancer's addresses: add an %s range", family, family, family),
	})
}

func (f *findings) badScheduler(svc *corev1.Service, key, name string) {
	f.add(cluster.Problem{
		Object: refOf(svc), Field: annotation(key), Warning: true,
		Message: fmt.Sprintf("%q is no name of a scheduler, it is ignored: write up to %d lower-case letters, such as rr, wrr, lc or sh", shorten(name), longestScheduler),
	})
}

func (f *findings) badWeights(slice *discoveryv1.EndpointSlice) {
	f.add(cluster.Problem{
		Object: cluster.MakeRef(cluster.EndpointSlice, slice.Namespace, slice.Name),
		Field:  annotation(endpoints.WeightsAnnotation), Warning: true,
		Message: `not a JSON object, all endpoints have weight 1: write it like {"10.244.0.5":20}`,
	})
}

// badWeight names the Pod when the slice was made from it: that is where the
// text was written.
func (f *findings) badWeight(slice *discoveryv1.EndpointSlice, i int, text string) {
	p := cluster.Problem{
		Object: cluster.MakeRef(cluster.EndpointSlice, slice.Namespace, slice.Name),
		Field:  annotation(endpoints.WeightsAnnotation), Warning: true,
		Message: fmt.Sprintf("%q is no weight, the endpoint %s has weight 1: write a number between 1 and %d", shorten(text), slice.Endpoints[i].Addresses[0], endpoints.MaxWeight),
	}
	ref := slice.Endpoints[i].TargetRef
	if slice.Labels[discoveryv1.LabelManagedBy] == endpoints.ManagedBy && ref != nil {
		p.Object = cluster.MakeRef(cluster.Pod, ref.Namespace, ref.Name)
		p.Field = annotation(endpoints.WeightAnnotation)
	}
	f.add(p)
}

// annotation is the path of an annotation.
func annotation(key string) string { return "metadata.annotations[" + key + "]" }

// shorten keeps a message readable whatever a manifest holds.
func shorten(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
