package gateway

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/ingress"
)

// attach gives each listener the routes that are attached to it, and returns the new
// statuses of the routes that have, or had, a parent of ours.
func (w *world) attach(gateways []*gateway) map[types.NamespacedName]gatewayv1.HTTPRouteStatus {
	byKey := map[types.NamespacedName]*gateway{}
	for _, g := range gateways {
		byKey[key(g.object)] = g
	}
	out := map[types.NamespacedName]gatewayv1.HTTPRouteStatus{}
	for _, object := range w.Objects.HTTPRoutes {
		var r *route
		var parents []gatewayv1.RouteParentStatus
		attached := map[*listener]bool{}
		for i := range object.Spec.ParentRefs {
			ref := &object.Spec.ParentRefs[i]
			g := byKey[parentKey(object, ref)]
			if g == nil || !isGateway(ref) {
				continue
			}
			if r == nil {
				r = w.readRoute(object)
			}
			verdicts := append([]verdict{w.attachTo(g, ref, r, attached)}, r.verdicts()...)
			if !verdicts[0].holds {
				verdicts = verdicts[:2] // the rules of what is not accepted are not judged
			}
			parents = append(parents, gatewayv1.RouteParentStatus{
				ParentRef: *ref, ControllerName: w.Controller,
				Conditions: conditions(w.oldParent(object, ref), object.Generation, w.Now, verdicts),
			})
		}
		if len(parents) > 0 || slices.ContainsFunc(object.Status.Parents, func(p gatewayv1.RouteParentStatus) bool { return w.obsolete(object, &p) }) {
			out[key(object)] = gatewayv1.HTTPRouteStatus{RouteStatus: gatewayv1.RouteStatus{Parents: w.merge(object, parents)}}
		}
	}
	return out
}

// merge puts the new statuses of parents in the places of the old ones. What others have
// written stays where it is: controllers that each put their own first would never end.
func (w *world) merge(object *gatewayv1.HTTPRoute, parents []gatewayv1.RouteParentStatus) []gatewayv1.RouteParentStatus {
	out := []gatewayv1.RouteParentStatus{}
	for _, old := range object.Status.Parents {
		i := slices.IndexFunc(parents, func(p gatewayv1.RouteParentStatus) bool {
			return old.ControllerName == w.Controller && equality.Semantic.DeepEqual(p.ParentRef, old.ParentRef)
		})
		switch {
		case i >= 0:
			out = append(out, parents[i])
			parents = slices.Delete(parents, i, i+1)
		case !w.obsolete(object, &old):
			out = append(out, old)
		}
	}
	return append(out, parents...)
}

// obsolete says whether a status of a parent is ours to remove, unless there is a new one. It is not
// when others look after that parent, be it another proxy of ours.
func (w *world) obsolete(object *gatewayv1.HTTPRoute, p *gatewayv1.RouteParentStatus) bool {
	elsewhere := len(w.Gateways) > 0 && !slices.Contains(w.Gateways, parentKey(object, &p.ParentRef))
	return p.ControllerName == w.Controller && !(elsewhere && hasParent(object, &p.ParentRef))
}

func hasParent(object *gatewayv1.HTTPRoute, ref *gatewayv1.ParentReference) bool {
	return slices.ContainsFunc(object.Spec.ParentRefs, func(p gatewayv1.ParentReference) bool {
		return equality.Semantic.DeepEqual(p, *ref)
	})
}

func (w *world) oldParent(object *gatewayv1.HTTPRoute, ref *gatewayv1.ParentReference) []metav1.Condition {
	for _, p := range object.Status.Parents {
		if p.ControllerName == w.Controller && equality.Semantic.DeepEqual(p.ParentRef, *ref) {
			return p.Conditions
		}
	}
	return nil
}

func isGateway(ref *gatewayv1.ParentReference) bool {
	return (ref.Group == nil || *ref.Group == gatewayv1.GroupName) && (ref.Kind == nil || *ref.Kind == "Gateway")
}

func parentKey(object *gatewayv1.HTTPRoute, ref *gatewayv1.ParentReference) types.NamespacedName {
	out := types.NamespacedName{Namespace: object.Namespace, Name: string(ref.Name)}
	if ref.Namespace != nil {
		out.Namespace = string(*ref.Namespace)
	}
	return out
}

// attachTo attaches a route to the listeners that a parentRef means, and returns the
// condition Accepted. The reason is that of the last sieve which let none through.
func (w *world) attachTo(g *gateway, ref *gatewayv1.ParentReference, r *route, attached map[*listener]bool) verdict {
	const kind = gatewayv1.RouteConditionAccepted
	named := slices.DeleteFunc(slices.Clone(g.listeners), func(l *listener) bool { return !l.meant(ref) })
	if len(named) == 0 {
		return no(kind, gatewayv1.RouteReasonNoMatchingParent, "the Gateway has no listener of that sectionName and port")
	}
	allowed := slices.DeleteFunc(named, func(l *listener) bool { return !w.allows(g.object, l, r.object.Namespace) })
	if len(allowed) == 0 {
		return no(kind, gatewayv1.RouteReasonNotAllowedByListeners, "no listener allows HTTPRoutes of namespace "+r.object.Namespace+": see its allowedRoutes")
	}
	matched := false
	for _, l := range allowed {
		hosts := intersect(l.hostname, r.hosts)
		matched = matched || len(hosts) > 0
		if len(hosts) == 0 || attached[l] {
			continue
		}
		attached[l] = true
		if r.invalid() == nil { // else its requests get 500: see ruleReader.read
			l.attached++
		}
		l.routes = append(l.routes, r.forListener(l, hosts)...)
	}
	switch {
	case !matched:
		return no(kind, gatewayv1.RouteReasonNoMatchingListenerHostname, "no hostname of the route is one of the listeners'")
	case r.invalid() != nil:
		return *r.invalid()
	}
	return yes(kind, gatewayv1.RouteReasonAccepted, "the route is accepted")
}

// meant says whether a parentRef chooses the listener, by its name, its port, or both.
func (l *listener) meant(ref *gatewayv1.ParentReference) bool {
	if ref.SectionName != nil && *ref.SectionName != "" && *ref.SectionName != l.spec.Name {
		return false
	}
	return ref.Port == nil || *ref.Port == l.spec.Port
}

// intersect returns the hosts that both a listener and a route stand for, of each pair
// the more specific. Without hostnames a route stands for those of the listener.
func intersect(of ingress.Hostname, hosts []ingress.Hostname) []ingress.Hostname {
	if len(hosts) == 0 {
		return []ingress.Hostname{of}
	}
	var out []ingress.Hostname
	for _, host := range hosts {
		switch {
		case includes(of, host):
			out = append(out, host)
		case includes(host, of):
			out = append(out, of)
		}
	}
	slices.SortFunc(out, ingress.Hostname.Compare)
	return slices.Compact(out)
}

// includes says whether every host that b stands for is one of a's.
func includes(a, b ingress.Hostname) bool {
	suffix, wild := strings.CutPrefix(a.Name, "*")
	return a.Name == "" || a == b || wild && b.Name != "" && strings.HasSuffix(b.Name, suffix) && len(b.Name) > len(suffix)
}
