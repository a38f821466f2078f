package balance

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// Build returns the table of a node with the frontends of all Services, and
// what is wrong with any of them. A frontend that two Services claim belongs to
// the older Service (creationTimestamp, then namespace and name), whatever the
// order they come in; the claim of the other is a problem and changes nothing
// else of it. slicesOf returns the EndpointSlices of a Service.
func Build(node Node, services []*corev1.Service, slicesOf func(types.NamespacedName) []*discoveryv1.EndpointSlice) (dataplane.Table, []cluster.Problem) {
	t := dataplane.Table{Node: dataplane.Node{PodRanges: node.PodRanges, ServiceRanges: node.ServiceRanges, Addrs: node.Addrs}}
	var problems []cluster.Problem
	owners := make(map[dataplane.Key]*corev1.Service, len(services))
	for _, svc := range slices.SortedFunc(slices.Values(services), older) {
		name := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
		frontends, sets, found := Frontends(node, svc, slicesOf(name))
		problems = append(problems, found...)
		kept := frontends[:0]
		for _, fe := range frontends {
			if owner := owners[fe.Key]; owner != nil {
				problems = append(problems, taken(fe, svc, owner))
				continue
			}
			owners[fe.Key] = svc
			kept = append(kept, fe)
		}
		if len(kept) < len(frontends) {
			used := usedSets(kept)
			sets = slices.DeleteFunc(sets, func(s dataplane.EndpointSet) bool { return !used[s.Name] })
		}
		t.Frontends = append(t.Frontends, kept...)
		t.Sets = append(t.Sets, sets...)
	}
	t.Sort()
	return t, problems
}

// older orders Services by who keeps a frontend that both claim. Objects from
// manifests have no creationTimestamp, and are then older than all that do.
func older(a, b *corev1.Service) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name))
}

// taken is the problem of a frontend that another Service has.
func taken(fe dataplane.Frontend, loser, owner *corev1.Service) cluster.Problem {
	p := cluster.Problem{Object: refOf(loser)}
	if loser == owner {
		p.Field = "spec.ports"
		p.Message = fmt.Sprintf("%s occurs twice in this Service, the first is used: give each port its own number and protocol", fe.Key)
		return p
	}
	field := [...]string{
		dataplane.ClusterIP:      "spec.clusterIP",
		dataplane.NodePort:       "spec.ports",
		dataplane.ExternalIP:     "spec.externalIPs",
		dataplane.LoadBalancerIP: "status.loadBalancer.ingress",
	}
	p.Field = field[fe.Kind]
	p.Message = fmt.Sprintf("%s already belongs to %s, which is older or first by name: choose another address or port, or leave it out to be given one", fe.Key, refOf(owner))
	return p
}
