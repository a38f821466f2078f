package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// split reads backendRefs. A reference that leads nowhere keeps its weight: its share
// of the requests gets 500.
func (r *ruleReader) split(refs []gatewayv1.HTTPBackendRef) []ingress.Share {
	var out []ingress.Share
	for i := range refs {
		ref := &refs[i]
		share := ingress.Share{Weight: 1, Backend: r.backend(&ref.BackendObjectReference), Filters: r.filters(ref.Filters)}
		if ref.Weight != nil {
			share.Weight = uint32(max(*ref.Weight, 0))
		}
		out = append(out, share)
	}
	return out
}

// backend reads a reference to a Service.
func (r *ruleReader) backend(ref *gatewayv1.BackendObjectReference) ingress.Backend {
	object := r.route.object
	out := ingress.Backend{Service: types.NamespacedName{Namespace: object.Namespace, Name: string(ref.Name)}}
	if ref.Namespace != nil {
		out.Service.Namespace = string(*ref.Namespace)
	}
	if ref.Port != nil {
		out.Port = uint16(*ref.Port)
	}
	if reason, message := r.follow(ref, out); reason != "" {
		out.Refused = message
		r.route.unresolved(reason, r.field+": "+message)
	}
	return out
}

// follow says what is wrong with a reference; nothing when it leads to a port.
func (r *ruleReader) follow(ref *gatewayv1.BackendObjectReference, b ingress.Backend) (gatewayv1.RouteConditionReason, string) {
	object := r.route.object
	if text(ref.Group) != "" || ref.Kind != nil && *ref.Kind != "Service" {
		return gatewayv1.RouteReasonInvalidKind, fmt.Sprintf("backend %s is no Service: nothing else is served", b.Service)
	}
	to := cluster.Ref{Kind: cluster.Service, NamespacedName: b.Service}
	if !r.permitted(reference{cluster.MakeRef(cluster.HTTPRoute, object.Namespace, object.Name), to}) {
		return gatewayv1.RouteReasonRefNotPermitted,
			fmt.Sprintf("%s is in another namespace, where no ReferenceGrant lets HTTPRoutes of %s use it", to, object.Namespace)
	}
	svc := r.services[b.Service]
	switch {
	case svc == nil:
		return gatewayv1.RouteReasonBackendNotFound, fmt.Sprintf("there is no %s", to)
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		// It could lead into any namespace, past all ReferenceGrants.
		return gatewayv1.RouteReasonUnsupportedValue, fmt.Sprintf("%s is of type ExternalName, which HTTPRoutes may not use", to)
	}
	i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == int32(b.Port) && cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP
	})
	if i < 0 {
		return gatewayv1.RouteReasonBackendNotFound, fmt.Sprintf("%s has no TCP port %d", to, b.Port)
	}
	if app := svc.Spec.Ports[i].AppProtocol; app != nil && !spoken(*app) {
		return gatewayv1.RouteReasonUnsupportedProtocol, fmt.Sprintf("%s: appProtocol %s of port %d is not spoken", to, *app, b.Port)
	}
	return "", ""
}

// spoken says whether a protocol of an application goes through an HTTP proxy. Of
// Kubernetes' own names it is known; those of others are taken for HTTP.
func spoken(app string) bool {
	name, kubernetes := strings.CutPrefix(strings.ToLower(app), "kubernetes.io/")
	return !kubernetes || slices.Contains([]string{"h2c", "ws", "wss"}, name)
}
