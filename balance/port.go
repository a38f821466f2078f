package balance

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
)

// port is one port of a Service in one family: the unit that is balanced. TCP
// and UDP on one number are two of them and share nothing.
type port struct {
	*facts
	// index is the place in spec.ports.
	index    int
	protocol dataplane.Protocol
	// vip is the Service's address in this family.
	vip netip.Addr
	// everywhere and here are the usable endpoints of the cluster and, when some
	// policy asks for them, of this node. Each falls back to terminating
	// endpoints for itself.
	everywhere, here scope
	// anywhere: some endpoint is usable, be it out of scope.
	anywhere bool
}

// scope is a set of endpoints that routes may choose from.
type scope struct {
	name      string
	endpoints []dataplane.Endpoint
}

func newPort(f *facts, index int, protocol dataplane.Protocol, vip netip.Addr) *port {
	p := &port{facts: f, index: index, protocol: protocol, vip: vip}
	stem := fmt.Sprintf("%s/%s/%s/", p.origin(), protocol, p.family())
	p.everywhere.name, p.here.name = stem+"cluster", stem+"local"
	return p
}

// origin names the port for people: "namespace/name", or "namespace/name:port".
func (p *port) origin() string {
	origin := p.service.Namespace + "/" + p.service.Name
	if name := p.spec().Name; name != "" {
		origin += ":" + name
	}
	return origin
}

func (p *port) spec() *corev1.ServicePort { return &p.service.Spec.Ports[p.index] }

func (p *port) family() dataplane.Family { return dataplane.FamilyOf(p.vip) }

// sets returns those of the port's endpoint sets that some frontend uses.
func (p *port) sets(frontends []dataplane.Frontend) []dataplane.EndpointSet {
	used := usedSets(frontends)
	var out []dataplane.EndpointSet
	for _, s := range []scope{p.everywhere, p.here} {
		if used[s.name] {
			out = append(out, dataplane.EndpointSet{
				Name: s.name, Service: p.origin(), Protocol: p.protocol,
				Affinity: p.affinity, Scheduler: p.scheduler, Endpoints: s.endpoints,
			})
		}
	}
	return out
}

func usedSets(frontends []dataplane.Frontend) map[string]bool {
	used := map[string]bool{}
	for _, fe := range frontends {
		for _, r := range fe.Routes {
			if r.Set != "" {
				used[r.Set] = true
			}
		}
	}
	return used
}
