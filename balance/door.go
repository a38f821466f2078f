package balance

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
)

// port is one port of a Service in one family: the unit that is balanced. TCP
// and UDP on one number are two of them and share nothing.
type port struct {
	// index is the place in spec.ports.
	index    int
	service  *corev1.Service
	protocol dataplane.Protocol
	// vip is the Service's address in this family.
	vip      netip.Addr
	affinity time.Duration
	// local: internalTrafficPolicy keeps the traffic of the ClusterIP on the node.
	local bool
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

func newPort(svc *corev1.Service, index int, protocol dataplane.Protocol, vip netip.Addr) *port {
	p := &port{index: index, service: svc, protocol: protocol, vip: vip, affinity: affinityOf(svc)}
	if policy := svc.Spec.InternalTrafficPolicy; policy != nil {
		p.local = *policy == corev1.ServiceInternalTrafficPolicyLocal
	}
	stem := fmt.Sprintf("%s/%s/%s/", p.origin(), protocol, dataplane.FamilyOf(vip))
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

// route is the fate of packets that may use the endpoints of the scope.
func (p *port) route(s scope, masquerade bool) dataplane.Route {
	switch {
	case len(s.endpoints) > 0:
		return dataplane.Route{Verdict: dataplane.Forward, Set: s.name, Masquerade: masquerade}
	case p.anywhere:
		return dataplane.Route{Verdict: dataplane.Drop}
	}
	return dataplane.Route{Verdict: dataplane.Refuse}
}

// door makes the frontends through which one way into a Service leads to a port.
type door func(*port) []dataplane.Frontend

// doors lists the ways in that are open.
func doors() []door { return []door{clusterIP} }

// open returns the frontends of the port, through all doors.
func (p *port) open() []dataplane.Frontend {
	var out []dataplane.Frontend
	for _, enter := range doors() {
		out = append(out, enter(p)...)
	}
	return out
}

// clusterIP is the inner door, for Pods. The node and what comes from outside
// may use it too, but then the reply must come back through this node.
func clusterIP(p *port) []dataplane.Frontend {
	scope := p.everywhere
	if p.local {
		scope = p.here
	}
	fe := dataplane.Frontend{
		Key:     dataplane.Key{Addr: p.vip, Protocol: p.protocol, Port: uint16(p.spec().Port)},
		Kind:    dataplane.ClusterIP,
		Service: p.origin(),
	}
	fe.Routes[dataplane.FromPod] = p.route(scope, false)
	fe.Routes[dataplane.FromNode] = p.route(scope, true)
	fe.Routes[dataplane.FromOutside] = p.route(scope, true)
	return []dataplane.Frontend{fe}
}

// sets returns those of the port's endpoint sets that some frontend uses.
func (p *port) sets(frontends []dataplane.Frontend) []dataplane.EndpointSet {
	used := usedSets(frontends)
	var out []dataplane.EndpointSet
	for _, s := range []scope{p.everywhere, p.here} {
		if used[s.name] {
			out = append(out, dataplane.EndpointSet{
				Name: s.name, Service: p.origin(), Protocol: p.protocol, Affinity: p.affinity, Endpoints: s.endpoints,
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
