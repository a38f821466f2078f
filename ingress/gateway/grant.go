package gateway

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// reference is one object's wish to use another one of group "".
type reference struct {
	from cluster.Ref // a Gateway or an HTTPRoute
	to   cluster.Ref // a Secret or a Service
}

// permitted says whether the reference may be followed: within a namespace always,
// otherwise when a ReferenceGrant beside the object that is referred to allows it.
func (w *world) permitted(r reference) bool {
	if r.from.Namespace == r.to.Namespace {
		return true
	}
	for _, grant := range w.grants[r.to.Namespace] {
		if grantsFrom(grant.Spec.From, r.from) && grantsTo(grant.Spec.To, r.to) {
			return true
		}
	}
	return false
}

func grantsFrom(list []gatewayv1.ReferenceGrantFrom, from cluster.Ref) bool {
	for _, f := range list {
		if f.Group == gatewayv1.GroupName && string(f.Kind) == string(from.Kind) && string(f.Namespace) == from.Namespace {
			return true
		}
	}
	return false
}

func grantsTo(list []gatewayv1.ReferenceGrantTo, to cluster.Ref) bool {
	for _, t := range list {
		if t.Group == "" && string(t.Kind) == string(to.Kind) && (t.Name == nil || *t.Name == "" || string(*t.Name) == to.Name) {
			return true
		}
	}
	return false
}
