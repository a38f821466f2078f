package balance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// findings collects what is wrong with one Service and its slices. The ports of
// a Service read the same slices: each finding is kept once.
type findings struct {
	problems []cluster.Problem
	known    map[cluster.Problem]bool
}

func newFindings() *findings { return &findings{known: map[cluster.Problem]bool{}} }

func (f *findings) add(p cluster.Problem) {
	if !f.known[p] {
		f.known[p] = true
		f.problems = append(f.problems, p)
	}
}

func (f *findings) unknownProtocol(svc *corev1.Service, i int) {
	f.add(cluster.Problem{
		Object:  refOf(svc),
		Field:   fmt.Sprintf("spec.ports[%d].protocol", i),
		Message: fmt.Sprintf("protocol %q is not known, the port has no frontend: write TCP, UDP or SCTP", svc.Spec.Ports[i].Protocol),
	})
}

// portNotFound: there are endpoints, but none has the port. The Service refuses
// connections, which looks like a Service without Pods and is not.
func (f *findings) portNotFound(p *port) {
	name := "without a name"
	if p.spec().Name != "" {
		name = fmt.Sprintf("named %q", p.spec().Name)
	}
	f.add(cluster.Problem{
		Object:  refOf(p.service),
		Field:   fmt.Sprintf("spec.ports[%d]", p.index),
		Warning: true,
		Message: fmt.Sprintf("no %s endpoint has a %s port %s, so connections to port %d are refused: "+
			"make targetPort the name of a container port of the Pods, or give the EndpointSlice a port of this name and protocol",
			dataplane.FamilyOf(p.vip), p.protocol, name, p.spec().Port),
	})
}

// twice: two frontends would share one endpoint set by its name. An API server
// accepts no such Service.
func (f *findings) twice(p *port) {
	f.add(cluster.Problem{
		Object: refOf(p.service),
		Field:  fmt.Sprintf("spec.ports[%d]", p.index),
		Message: fmt.Sprintf("the Service has a %s port of this name on an %s address already, port %d on %s is left out: "+
			"give each port a name of its own, and the Service one address of a family",
			p.protocol, dataplane.FamilyOf(p.vip), p.spec().Port, p.vip),
	})
}

func (f *findings) badAddress(slice *discoveryv1.EndpointSlice, i int) {
	f.add(cluster.Problem{
		Object: cluster.MakeRef(cluster.EndpointSlice, slice.Namespace, slice.Name),
		Field:  fmt.Sprintf("endpoints[%d].addresses[0]", i),
		Message: fmt.Sprintf("%q is no %s address, the endpoint is left out: write an address of the slice's addressType",
			slice.Endpoints[i].Addresses[0], slice.AddressType),
	})
}

// noHost: an address that nobody has alone. Some kernels refuse to send a
// Service's packets there.
func (f *findings) noHost(slice *discoveryv1.EndpointSlice, i int) {
	f.add(cluster.Problem{
		Object: cluster.MakeRef(cluster.EndpointSlice, slice.Namespace, slice.Name),
		Field:  fmt.Sprintf("endpoints[%d].addresses[0]", i),
		Message: fmt.Sprintf("%s is the address of no single host, the endpoint is left out: write the address of a Pod or of another server",
			slice.Endpoints[i].Addresses[0]),
	})
}
