package balance

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// Server is a program of the node that waits for clients on a port.
type Server struct {
	Protocol dataplane.Protocol
	// At is where it waits; the unspecified address means on all addresses.
	At netip.AddrPort
}

// HiddenServers warns of servers of the node that nobody reaches any more, because
// a frontend of the table has their address and port: node ports are not
// reserved, and an external IP may be the node's own address. own are the
// addresses of the node. The Service goes before; its other doors are as they are.
func HiddenServers(t dataplane.Table, services []*corev1.Service, own []netip.Addr, servers []Server) []cluster.Problem {
	byName := make(map[string]*corev1.Service, len(services))
	for _, svc := range services {
		byName[types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}.String()] = svc
	}
	found := newFindings()
	for _, fe := range t.Frontends {
		dialled := t.Node.Addrs
		if fe.Kind != dataplane.NodePort {
			dialled = []netip.Addr{fe.Addr}
			if !slices.Contains(own, fe.Addr) {
				continue
			}
		}
		name, _, _ := strings.Cut(fe.Service, ":")
		svc := byName[name]
		for _, s := range servers {
			if svc != nil && s.Protocol == fe.Protocol && s.At.Port() == fe.Port && s.isAt(dialled) {
				found.hidden(svc, fe, s)
			}
		}
	}
	return found.problems
}

// isAt reports whether a client of one of the addresses would reach the server.
func (s Server) isAt(addrs []netip.Addr) bool {
	at := s.At.Addr()
	return slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		// On all addresses of IPv6 it is on those of IPv4 too, as a rule.
		return a == at || at.IsUnspecified() && (at.Is6() || a.Is4())
	})
}

func (f *findings) hidden(svc *corev1.Service, fe dataplane.Frontend, s Server) {
	f.add(cluster.Problem{
		Object: refOf(svc), Field: fieldOf(svc, fe), Warning: true,
		Message: fmt.Sprintf("a server of this node waits on %s port %d too, and is not reached any more except over loopback: the Service goes before; choose another port, or stop the server",
			s.Protocol, fe.Port),
	})
}
