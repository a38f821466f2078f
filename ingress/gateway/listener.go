package gateway

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/ingress"
)

// listener is a listener of a Gateway, judged.
type listener struct {
	spec     *gatewayv1.Listener
	index    int
	hostname ingress.Hostname
	// accepted, conflict and refs become the conditions Accepted, Conflicted and ResolvedRefs.
	accepted, conflict, refs verdict
	kinds                    []gatewayv1.RouteGroupKind
	certificates             []ingress.Certificate
	// attached counts HTTPRoutes, whether the listener is served or not: so the API has it.
	attached int32
	routes   []ranked
}

// judge decides everything about a listener that the others have no say in.
func (w *world) judge(gw *gatewayv1.Gateway, index int) *listener {
	spec := &gw.Spec.Listeners[index]
	l := &listener{
		spec: spec, index: index, hostname: hostname(spec.Hostname),
		accepted: yes(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonAccepted, "the listener is accepted"),
		conflict: no(gatewayv1.ListenerConditionConflicted, gatewayv1.ListenerReasonNoConflicts, "no other listener is in the way"),
		refs:     yes(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonResolvedRefs, "all references are resolved"),
		kinds:    []gatewayv1.RouteGroupKind{},
	}
	if !l.http() {
		l.refuse(gatewayv1.ListenerReasonUnsupportedProtocol, fmt.Sprintf("protocol %s is not served: use HTTP or HTTPS", spec.Protocol))
		return l
	}
	l.readKinds()
	if len(w.Ports) > 0 && !slices.Contains(w.Ports, l.port()) {
		l.refuse(gatewayv1.ListenerReasonPortUnavailable, fmt.Sprintf("port %d is none of those that clients reach: %s", spec.Port, list(w.Ports)))
	}
	if l.tls() {
		w.readTLS(gw, l)
	}
	return l
}

func (l *listener) http() bool {
	return l.spec.Protocol == gatewayv1.HTTPProtocolType || l.spec.Protocol == gatewayv1.HTTPSProtocolType
}

func (l *listener) tls() bool { return l.spec.Protocol == gatewayv1.HTTPSProtocolType }

func (l *listener) port() uint16 { return uint16(l.spec.Port) }

func (l *listener) refuse(reason gatewayv1.ListenerConditionReason, message string) {
	l.accepted = no(gatewayv1.ListenerConditionAccepted, reason, message)
}

func (l *listener) unresolved(reason gatewayv1.ListenerConditionReason, message string) {
	if l.refs.holds {
		l.refs = no(gatewayv1.ListenerConditionResolvedRefs, reason, message)
	}
}

// readKinds takes HTTPRoute from allowedRoutes.kinds, which means it when empty.
func (l *listener) readKinds() {
	group := gatewayv1.Group(gatewayv1.GroupName)
	route := gatewayv1.RouteGroupKind{Group: &group, Kind: "HTTPRoute"}
	if l.spec.AllowedRoutes == nil || len(l.spec.AllowedRoutes.Kinds) == 0 {
		l.kinds = append(l.kinds, route)
		return
	}
	for _, k := range l.spec.AllowedRoutes.Kinds {
		if k.Kind != route.Kind || k.Group != nil && *k.Group != group {
			l.unresolved(gatewayv1.ListenerReasonInvalidRouteKinds, fmt.Sprintf("allowedRoutes.kinds: %s is not served: HTTPRoute is", k.Kind))
		} else if len(l.kinds) == 0 {
			l.kinds = append(l.kinds, route)
		}
	}
}

// served says whether the proxy takes connections for the listener.
func (l *listener) served() bool {
	return l.accepted.holds && len(l.kinds) > 0 &&
		(!l.tls() || len(l.certificates) > 0)
}

// programmed is the condition of that name.
func (l *listener) programmed(accepted bool) verdict {
	const kind = gatewayv1.ListenerConditionProgrammed
	switch {
	case !accepted:
		return no(kind, gatewayv1.ListenerReasonInvalid, "the Gateway is not accepted")
	case l.conflict.holds:
		return no(kind, gatewayv1.ListenerConditionReason(l.conflict.reason), l.conflict.message)
	case !l.accepted.holds:
		return no(kind, gatewayv1.ListenerReasonInvalid, l.accepted.message)
	case !l.served():
		return no(kind, gatewayv1.ListenerReasonInvalid, l.refs.message)
	}
	return yes(kind, gatewayv1.ListenerReasonProgrammed, "the listener is served")
}

// allows says whether routes of a namespace may attach.
func (w *world) allows(gw *gatewayv1.Gateway, l *listener, namespace string) bool {
	if len(l.kinds) == 0 {
		return false
	}
	from := gatewayv1.NamespacesFromSame
	var namespaces *gatewayv1.RouteNamespaces
	if l.spec.AllowedRoutes != nil {
		namespaces = l.spec.AllowedRoutes.Namespaces
	}
	if namespaces != nil && namespaces.From != nil {
		from = *namespaces.From
	}
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return namespace == gw.Namespace
	case gatewayv1.NamespacesFromSelector:
		return selects(namespaces.Selector, w.labelsOf(namespace))
	}
	return false
}

// conflicts finds listeners of one Gateway that the API calls indistinct. None of
// them wins: the API forbids to pick one.
func conflicts(listeners []*listener) {
	for i, a := range listeners {
		for _, b := range listeners[i+1:] {
			if !a.http() || !b.http() || a.spec.Port != b.spec.Port {
				continue
			}
			switch {
			case a.spec.Protocol != b.spec.Protocol:
				clash(a, b, gatewayv1.ListenerReasonProtocolConflict, "protocol")
			case a.hostname == b.hostname:
				clash(a, b, gatewayv1.ListenerReasonHostnameConflict, "hostname")
			}
		}
	}
}

func clash(a, b *listener, reason gatewayv1.ListenerConditionReason, what string) {
	for _, pair := range [][2]*listener{{a, b}, {b, a}} {
		l, other := pair[0], pair[1]
		message := fmt.Sprintf("listener %s has port %d too, and the %s does not tell them apart: change one of them", other.spec.Name, l.spec.Port, what)
		if !l.conflict.holds {
			l.conflict = yes(gatewayv1.ListenerConditionConflicted, reason, message)
			l.refuse(reason, message)
		}
	}
}

// hostname reads a name of the API: "*" stands there for one or more labels.
func hostname(name *gatewayv1.Hostname) ingress.Hostname {
	if name == nil {
		return ingress.Hostname{}
	}
	text := strings.ToLower(string(*name))
	return ingress.Hostname{Name: text, AnyDepth: strings.HasPrefix(text, "*.")}
}

func list(ports []uint16) string { return strings.Trim(fmt.Sprint(ports), "[]") }
