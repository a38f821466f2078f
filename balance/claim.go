package balance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// claim is the claim of a Service to a frontend: that of its part at an index.
type claim struct {
	of *account
	at int
}

func (c claim) service() *corev1.Service { return c.of.part.Service }

func (c claim) kind() dataplane.Kind { return c.of.part.Frontends[c.at].Kind }

// claim enters the claims of an account, each in its place. Of two that it has on
// one frontend by like doors the first counts.
func (l *Ledger) claim(a *account) {
	for i, fe := range a.part.Frontends {
		list, mine := l.claims[fe.Key], claim{a, i}
		if at, there := slices.BinarySearchFunc(list, mine, claim.before); !there {
			l.claims[fe.Key] = slices.Insert(list, at, mine)
		}
	}
}

// before orders claims to one frontend by who is given it: a ClusterIP, which is
// given to one Service alone, goes before what anybody can write into a field of
// his own; then the older Service goes first.
func (c claim) before(other claim) int {
	rank := func(c claim) int {
		if c.kind() == dataplane.ClusterIP {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(c), rank(other)), older(c.service(), other.service()))
}

// withdraw takes back all claims of an account.
func (l *Ledger) withdraw(a *account) {
	for _, fe := range a.part.Frontends {
		rest := slices.DeleteFunc(l.claims[fe.Key], func(c claim) bool { return c.of == a })
		if len(rest) > 0 {
			l.claims[fe.Key] = rest
			continue
		}
		delete(l.claims, fe.Key)
	}
}

// owner returns the claim that is given a frontend; the zero claim if there is
// none. Where the node port of an older Service answers already nobody is given
// it: all claims that follow the first are younger still.
func (l *Ledger) owner(key dataplane.Key) claim {
	list := l.claims[key]
	if len(list) == 0 {
		return claim{}
	}
	first := list[0]
	if first.kind() == dataplane.ClusterIP || first.kind() == dataplane.NodePort {
		return first
	}
	if np := l.shadows(key); np != nil && older(np.part.Service, first.service()) < 0 {
		return claim{}
	}
	return first
}

// behind returns the keys whose owner depends on that of a node port: its port of
// each of the node's addresses; none for what is no node port.
func (l *Ledger) behind(key dataplane.Key) []dataplane.Key {
	if !key.Addr.IsUnspecified() {
		return nil
	}
	var out []dataplane.Key
	for _, addr := range l.node.Addrs {
		if dataplane.FamilyOf(addr) == dataplane.FamilyOf(key.Addr) {
			key.Addr = addr
			out = append(out, key)
		}
	}
	return out
}

// Frontend returns the frontend of the table with that key. With Set it makes a
// Ledger a dataplane.View.
func (l *Ledger) Frontend(key dataplane.Key) (dataplane.Frontend, bool) {
	owner := l.owner(key)
	if owner.of == nil {
		return dataplane.Frontend{}, false
	}
	return owner.of.part.Frontends[owner.at], true
}

// Set returns the endpoint set of the table with that name, which begins with
// that of its Service.
func (l *Ledger) Set(name string) (dataplane.EndpointSet, bool) {
	namespace, rest, _ := strings.Cut(name, "/")
	service, _, _ := strings.Cut(rest, "/")
	service, _, _ = strings.Cut(service, ":")
	if a := l.accounts[types.NamespacedName{Namespace: namespace, Name: service}]; a != nil {
		for _, s := range a.given.sets {
			if s.Name == name {
				return s, true
			}
		}
	}
	return dataplane.EndpointSet{}, false
}

// problems returns those of a part, and what is wrong with its claims.
func (l *Ledger) problems(a *account) []cluster.Problem {
	out := slices.Clone(a.part.Problems)
	for i, fe := range a.part.Frontends {
		switch owner := l.owner(fe.Key); owner {
		case claim{a, i}:
			out = append(out, l.shadowed(a, fe)...)
		case claim{}:
			out = append(out, isNodePort(fe, a.part.Service, l.shadows(fe.Key).part.Service))
		default:
			out = append(out, notGiven(fe, a.part.Service, owner))
		}
	}
	return out
}

// shadowed warns of a node port that does not answer on one of the node's
// addresses, because another Service has that very address and port.
func (l *Ledger) shadowed(a *account, fe dataplane.Frontend) []cluster.Problem {
	if fe.Kind != dataplane.NodePort {
		return nil
	}
	var out []cluster.Problem
	for _, exact := range l.behind(fe.Key) {
		owner := l.owner(exact)
		if owner.of == nil || owner.of == a {
			continue
		}
		out = append(out, cluster.Problem{
			Object: refOf(a.part.Service), Field: fieldOf(a.part.Service, fe), Warning: true,
			Message: fmt.Sprintf("node port %d does not answer on %s, which %s has as its %s: choose another node port", fe.Port, exact, refOf(owner.service()), owner.kind()),
		})
	}
	return out
}

// shadows returns who has the node port that does not answer where a frontend on
// an address of the node is; nil where there is none.
func (l *Ledger) shadows(key dataplane.Key) *account {
	if _, found := slices.BinarySearchFunc(l.node.Addrs, key.Addr, netip.Addr.Compare); !found {
		return nil
	}
	key.Addr = anyAddr(dataplane.FamilyOf(key.Addr))
	return l.owner(key).of
}

// isNodePort is the problem of a frontend where the node port of an older Service
// answers.
func isNodePort(fe dataplane.Frontend, loser, owner *corev1.Service) cluster.Problem {
	return cluster.Problem{Object: refOf(loser), Field: fieldOf(loser, fe),
		Message: fmt.Sprintf("%s is an address of this node with the node port of %s, which is older or first by name: choose another address or port", fe.Key, refOf(owner))}
}

// notGiven is the problem of a frontend that another Service has, or another
// door of the same Service.
func notGiven(fe dataplane.Frontend, loser *corev1.Service, owner claim) cluster.Problem {
	p := cluster.Problem{Object: refOf(loser)}
	switch {
	case loser == owner.service() && fe.Kind == owner.kind():
		p.Field = "spec.ports"
		p.Message = fmt.Sprintf("%s occurs twice in this Service, the first is used: give each port its own number and protocol", fe.Key)
		return p
	case loser == owner.service():
		p.Field = fieldOf(loser, fe)
		p.Message = fmt.Sprintf("%s is the %s of another port of this Service, which is used: choose another address or port", fe.Key, owner.kind())
		return p
	}
	p.Field = fieldOf(loser, fe)
	if owner.kind() == dataplane.ClusterIP && fe.Kind != dataplane.ClusterIP {
		p.Message = fmt.Sprintf("%s is the ClusterIP of %s, which nobody else is given: choose another address or port", fe.Key, refOf(owner.service()))
		return p
	}
	p.Message = fmt.Sprintf("%s already belongs to %s, which is older or first by name: choose another address or port, or leave it out to be given one", fe.Key, refOf(owner.service()))
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
