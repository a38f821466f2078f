package balance

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// Part is what one Service contributes to the table of a node, as if there were
// no other Service: a value that stays right until the Service, its slices or
// the node change. Whoever follows changes keeps the parts and makes anew only
// those of changed Services; a Ledger joins them.
type Part struct {
	Service   *corev1.Service
	Frontends []dataplane.Frontend
	Sets      []dataplane.EndpointSet
	Problems  []cluster.Problem
}

// MakePart returns the part of a Service; see Frontends.
func MakePart(node Node, svc *corev1.Service, slices []*discoveryv1.EndpointSlice) Part {
	p := Part{Service: svc}
	p.Frontends, p.Sets, p.Problems = Frontends(node, svc, slices)
	return p
}

// Build returns the table of a node with the frontends of all Services, and
// what is wrong with any of them. slicesOf returns the EndpointSlices of a
// Service. It is Join of the parts of all Services.
func Build(node Node, services []*corev1.Service, slicesOf func(types.NamespacedName) []*discoveryv1.EndpointSlice) (dataplane.Table, []cluster.Problem) {
	parts := make([]Part, len(services))
	for i, svc := range services {
		parts[i] = MakePart(node, svc, slicesOf(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}))
	}
	return Join(node, parts)
}

// Join makes the table of a node of parts in any order, one a Service, and
// changes none of them; see Ledger for what becomes of a frontend that two
// Services claim.
func Join(node Node, parts []Part) (dataplane.Table, []cluster.Problem) {
	l := NewLedger(node, parts)
	return l.Table(), l.Problems()
}

// older orders Services by age, then by name. One without a creationTimestamp has
// only just been seen: it is younger than all that have one.
func older(a, b *corev1.Service) int {
	if born, other := !a.CreationTimestamp.IsZero(), !b.CreationTimestamp.IsZero(); born != other {
		if born {
			return -1
		}
		return 1
	}
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name))
}
