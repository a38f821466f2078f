package balance

import (
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// door makes the frontends through which one way into a Service leads to a port.
type door func(*port) []dataplane.Frontend

// doors lists the ways in. Where two lead to one address the first is used.
func doors() []door { return []door{clusterIP, nodePort, loadBalancerIP, externalIP} }

// open returns the frontends of the port, through all doors, each Key once.
func (p *port) open() []dataplane.Frontend {
	var out []dataplane.Frontend
	for _, enter := range doors() {
		for _, fe := range enter(p) {
			if !has(out, fe.Key) {
				out = append(out, fe)
			}
		}
	}
	return out
}

// has is a walk: a port has few frontends.
func has(frontends []dataplane.Frontend, key dataplane.Key) bool {
	for i := range frontends {
		if frontends[i].Key == key {
			return true
		}
	}
	return false
}

// frontend makes a frontend of the port.
func (p *port) frontend(kind dataplane.Kind, addr netip.Addr, number int32, routes [dataplane.Sources]dataplane.Route) dataplane.Frontend {
	return dataplane.Frontend{
		Key:  dataplane.Key{Addr: addr, Protocol: p.protocol, Port: uint16(number)},
		Kind: kind, Service: p.origin(), Routes: routes,
	}
}

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

// clusterIP is the inner door, for Pods. The node and what comes from outside
// may use it too, but then the reply must come back through this node. Where
// nobody can tell Pods from others nobody is masqueraded: a Pod's source would
// be lost as well.
func clusterIP(p *port) []dataplane.Frontend {
	scope, foreign := p.everywhere, p.node.MasqueradeAll || p.node.tellsPods(p.family())
	if p.internalLocal {
		scope = p.here
	}
	var routes [dataplane.Sources]dataplane.Route
	routes[dataplane.FromPod] = p.route(scope, p.node.MasqueradeAll)
	routes[dataplane.FromNode] = p.route(scope, foreign)
	routes[dataplane.FromOutside] = p.route(scope, foreign)
	return []dataplane.Frontend{p.frontend(dataplane.ClusterIP, p.vip, p.spec().Port, routes)}
}

// outside is the fate of packets at the doors for clients outside the cluster.
//
// With policy Cluster every packet is masqueraded, those of Pods too: the
// endpoint may be on any node. With policy Local a client outside keeps its
// source, and so must be served by this node's endpoints; Pods and the node
// itself are inside, and reach all endpoints as if they dialled the ClusterIP.
func (p *port) outside() [dataplane.Sources]dataplane.Route {
	var routes [dataplane.Sources]dataplane.Route
	if !p.externalLocal {
		for i := range routes {
			routes[i] = p.route(p.everywhere, true)
		}
		return routes
	}
	routes[dataplane.FromOutside] = p.route(p.here, false)
	routes[dataplane.FromNode] = p.route(p.everywhere, true)
	routes[dataplane.FromPod] = p.route(p.everywhere, false)
	if !p.node.tellsPods(p.family()) {
		routes[dataplane.FromPod] = routes[dataplane.FromOutside]
	}
	return routes
}

// nodePort is the door on the node's own addresses.
func nodePort(p *port) []dataplane.Frontend {
	number := p.spec().NodePort
	if !p.outer.nodePorts || !isPort(number) {
		return nil
	}
	return []dataplane.Frontend{p.frontend(dataplane.NodePort, anyAddr(p.family()), number, p.outside())}
}

// anyAddr stands for all addresses of the node of a family.
func anyAddr(f dataplane.Family) netip.Addr {
	if f == dataplane.IPv4 {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// loadBalancerIP is the door on the addresses of a load balancer, which never
// sees what is sent to them from this node.
func loadBalancerIP(p *port) []dataplane.Frontend {
	if p.outer.shut[p.family()] {
		return nil
	}
	var out []dataplane.Frontend
	for _, addr := range ofFamily(p.outer.balancer, p.family()) {
		fe := p.frontend(dataplane.LoadBalancerIP, addr, p.spec().Port, p.outside())
		fe.Allowed = p.outer.ranges[p.family()]
		out = append(out, fe)
	}
	return out
}

// externalIP is the door on addresses that somebody else sends to this node.
// Those that are a load balancer's as well are left to its door, open or shut.
func externalIP(p *port) []dataplane.Frontend {
	var out []dataplane.Frontend
	for _, addr := range ofFamily(p.outer.external, p.family()) {
		if !slices.Contains(p.outer.balancer, addr) {
			out = append(out, p.frontend(dataplane.ExternalIP, addr, p.spec().Port, p.outside()))
		}
	}
	return out
}
