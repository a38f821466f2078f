package balance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// Part is what one Service contributes to the table of a node, as if there were
// no other Service: a value that stays right until the Service, its slices or
// the node change. Whoever follows changes keeps the parts and makes anew only
// those of changed Services.
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

// Join makes the table of a node of parts in any order, and changes none of
// them. A frontend that two Services claim, through whatever doors, belongs to
// the older Service (creationTimestamp, then namespace and name); the claim of
// the other is a problem, changes nothing else of it, and is served as soon as
// the older one does not claim it any more.
func Join(node Node, parts []Part) (dataplane.Table, []cluster.Problem) {
	t := dataplane.Table{Node: node.table()}
	var problems []cluster.Problem
	claims := claims{owners: make(map[dataplane.Key]claim, len(parts))}
	for _, part := range slices.SortedFunc(slices.Values(parts), func(a, b Part) int { return older(a.Service, b.Service) }) {
		problems = append(problems, part.Problems...)
		kept, lost := claims.settle(part)
		problems = append(problems, lost...)
		sets := part.Sets
		if len(kept) < len(part.Frontends) {
			used := usedSets(kept)
			sets = slices.DeleteFunc(slices.Clone(sets), func(s dataplane.EndpointSet) bool { return !used[s.Name] })
		}
		t.Frontends = append(t.Frontends, kept...)
		t.Sets = append(t.Sets, sets...)
	}
	t.Sort()
	return t, append(problems, claims.shadowed(t)...)
}

// older orders Services by who keeps a frontend that both claim. Objects from
// manifests have no creationTimestamp, and are then older than all that do.
func older(a, b *corev1.Service) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name))
}

// claim is a frontend that a Service has.
type claim struct {
	service *corev1.Service
	kind    dataplane.Kind
}

// claims says who has which frontend.
type claims struct {
	owners map[dataplane.Key]claim
}

// settle returns the frontends that the Service of a part gets, and a problem
// for each of the others.
func (c claims) settle(part Part) (kept []dataplane.Frontend, lost []cluster.Problem) {
	kept = make([]dataplane.Frontend, 0, len(part.Frontends))
	for _, fe := range part.Frontends {
		if owner, taken := c.owners[fe.Key]; taken {
			lost = append(lost, notGiven(fe, part.Service, owner))
			continue
		}
		c.owners[fe.Key] = claim{part.Service, fe.Kind}
		kept = append(kept, fe)
	}
	return kept, lost
}

// shadowed warns of node ports that do not answer on one of the node's
// addresses, because another Service has that very address and port.
func (c claims) shadowed(t dataplane.Table) []cluster.Problem {
	var out []cluster.Problem
	for _, fe := range t.Frontends {
		if _, found := slices.BinarySearchFunc(t.Node.Addrs, fe.Addr, netip.Addr.Compare); !found {
			continue
		}
		nodePort := dataplane.Frontend{Key: fe.Key, Kind: dataplane.NodePort}
		nodePort.Addr = anyAddr(dataplane.FamilyOf(fe.Addr))
		owner, exact := c.owners[nodePort.Key], c.owners[fe.Key]
		if owner.service == nil || owner.service == exact.service {
			continue
		}
		out = append(out, cluster.Problem{
			Object: refOf(owner.service), Field: fieldOf(owner.service, nodePort), Warning: true,
			Message: fmt.Sprintf("node port %d does not answer on %s, which %s has as its %s: choose another node port", fe.Port, fe.Key, refOf(exact.service), fe.Kind),
		})
	}
	return out
}

// notGiven is the problem of a frontend that another Service has, or another
// door of the same Service.
func notGiven(fe dataplane.Frontend, loser *corev1.Service, owner claim) cluster.Problem {
	p := cluster.Problem{Object: refOf(loser)}
	switch {
	case loser == owner.service && fe.Kind == owner.kind:
		p.Field = "spec.ports"
		p.Message = fmt.Sprintf("%s occurs twice in this Service, the first is used: give each port its own number and protocol", fe.Key)
		return p
	case loser == owner.service:
		p.Field = fieldOf(loser, fe)
		p.Message = fmt.Sprintf("%s is the %s of another port of this Service, which is used: choose another address or port", fe.Key, owner.kind)
		return p
	}
	p.Field = fieldOf(loser, fe)
	p.Message = fmt.Sprintf("%s already belongs to %s, which is older or first by name: choose another address or port, or leave it out to be given one", fe.Key, refOf(owner.service))
	return p
}

// fieldOf names the field of a Service that makes a frontend.
func fieldOf(svc *corev1.Service, fe dataplane.Frontend) string {
	same := func(text string) bool {
		addr, err := parseAddr(text)
		return err == nil && addr == fe.Addr
	}
	switch fe.Kind {
	case dataplane.NodePort:
		i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			protocol, ok := protocolOf(p.Protocol)
			return ok && protocol == fe.Protocol && p.NodePort == int32(fe.Port)
		})
		return fmt.Sprintf("spec.ports[%d].nodePort", i)
	case dataplane.ExternalIP:
		return fmt.Sprintf("spec.externalIPs[%d]", slices.IndexFunc(svc.Spec.ExternalIPs, same))
	case dataplane.LoadBalancerIP:
		i := slices.IndexFunc(svc.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return same(in.IP) })
		return fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i)
	}
	return "spec.clusterIP"
}
