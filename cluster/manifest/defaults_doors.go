package manifest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// The status of the kinds below is written by those who serve them; what a
// manifest says of it is not read, as an API server does not read it.

func defaultIngress(i *networkingv1.Ingress) { i.Status = networkingv1.IngressStatus{} }

func defaultIngressClass(c *networkingv1.IngressClass) {
	if c.Spec.Parameters != nil {
		orPointer(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func defaultReferenceGrant(*gatewayv1.ReferenceGrant) {}

// pending is a condition of which nobody has said anything yet. Its time is that
// of the CRD: the epoch.
func pending(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: "Pending", Message: "Waiting for controller",
		LastTransitionTime: metav1.NewTime(time.Unix(0, 0).UTC())}
}

func defaultGatewayClass(c *gatewayv1.GatewayClass) {
	c.Status = gatewayv1.GatewayClassStatus{Conditions: []metav1.Condition{pending("Accepted")}}
}

func defaultGateway(g *gatewayv1.Gateway) {
	g.Status = gatewayv1.GatewayStatus{Conditions: []metav1.Condition{pending("Accepted"), pending("Programmed")}}
	for i := range g.Spec.Addresses {
		orPointer(&g.Spec.Addresses[i].Type, gatewayv1.IPAddressType)
	}
	if a := g.Spec.AllowedListeners; a != nil {
		orPointer(&a.Namespaces, gatewayv1.ListenerNamespaces{})
		orPointer(&a.Namespaces.From, gatewayv1.NamespacesFromNone)
	}
	for i := range g.Spec.Listeners {
		defaultListener(&g.Spec.Listeners[i])
	}
	if t := g.Spec.TLS; t != nil {
		defaultGatewayTLS(t)
	}
}

func defaultGatewayTLS(t *gatewayv1.GatewayTLSConfig) {
	if t.Backend != nil && t.Backend.ClientCertificateRef != nil {
		defaultSecretRef(t.Backend.ClientCertificateRef)
	}
	if t.Frontend == nil {
		return
	}
	if v := t.Frontend.Default.Validation; v != nil {
		orDefault(&v.Mode, gatewayv1.AllowValidOnly)
	}
	for i := range t.Frontend.PerPort {
		if v := t.Frontend.PerPort[i].TLS.Validation; v != nil {
			orDefault(&v.Mode, gatewayv1.AllowValidOnly)
		}
	}
}

func defaultListener(l *gatewayv1.Listener) {
	orPointer(&l.AllowedRoutes, gatewayv1.AllowedRoutes{})
	orPointer(&l.AllowedRoutes.Namespaces, gatewayv1.RouteNamespaces{})
	orPointer(&l.AllowedRoutes.Namespaces.From, gatewayv1.NamespacesFromSame)
	for i := range l.AllowedRoutes.Kinds {
		orPointer(&l.AllowedRoutes.Kinds[i].Group, gatewayv1.GroupName)
	}
	if l.TLS == nil {
		return
	}
	orPointer(&l.TLS.Mode, gatewayv1.TLSModeTerminate)
	for i := range l.TLS.CertificateRefs {
		defaultSecretRef(&l.TLS.CertificateRefs[i])
	}
}

func defaultSecretRef(r *gatewayv1.SecretObjectReference) {
	orPointer(&r.Group, "")
	orPointer(&r.Kind, "Secret")
}

func defaultHTTPRoute(r *gatewayv1.HTTPRoute) {
	r.Status = gatewayv1.HTTPRouteStatus{}
	for i := range r.Spec.ParentRefs {
		orPointer(&r.Spec.ParentRefs[i].Group, gatewayv1.GroupName)
		orPointer(&r.Spec.ParentRefs[i].Kind, "Gateway")
	}
	if r.Spec.Rules == nil {
		r.Spec.Rules = []gatewayv1.HTTPRouteRule{{}}
	}
	for i := range r.Spec.Rules {
		defaultRouteRule(&r.Spec.Rules[i])
	}
}

func defaultRouteRule(r *gatewayv1.HTTPRouteRule) {
	// An empty list means what none means; the state directory would not keep the
	// two apart.
	if len(r.Matches) == 0 {
		r.Matches = []gatewayv1.HTTPRouteMatch{{}}
	}
	for i := range r.Matches {
		m := &r.Matches[i]
		orPointer(&m.Path, gatewayv1.HTTPPathMatch{})
		orPointer(&m.Path.Type, gatewayv1.PathMatchPathPrefix)
		orPointer(&m.Path.Value, "/")
		for j := range m.Headers {
			orPointer(&m.Headers[j].Type, gatewayv1.HeaderMatchExact)
		}
		for j := range m.QueryParams {
			orPointer(&m.QueryParams[j].Type, gatewayv1.QueryParamMatchExact)
		}
	}
	defaultFilters(r.Filters)
	for i := range r.BackendRefs {
		b := &r.BackendRefs[i]
		defaultBackendRef(&b.BackendObjectReference)
		orPointer(&b.Weight, 1)
		defaultFilters(b.Filters)
	}
}

func defaultBackendRef(r *gatewayv1.BackendObjectReference) {
	orPointer(&r.Group, gatewayv1.Group(corev1.GroupName))
	orPointer(&r.Kind, "Service")
}

func defaultFilters(filters []gatewayv1.HTTPRouteFilter) {
	for i := range filters {
		f := &filters[i]
		if m := f.RequestMirror; m != nil {
			defaultBackendRef(&m.BackendRef)
			if m.Fraction != nil {
				orPointer(&m.Fraction.Denominator, 100)
			}
		}
		if f.RequestRedirect != nil {
			orPointer(&f.RequestRedirect.StatusCode, 302)
		}
		if f.CORS != nil {
			orDefault(&f.CORS.MaxAge, 5)
		}
	}
}
