package agent

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/endpoints"
)

// Input is one complete set of objects from a source, with what was wrong.
type Input struct {
	Objects  cluster.Objects
	Problems []cluster.Problem
	// Locate finds where a field of an object stands in the manifests. May be
	// nil when the objects come from no file.
	Locate func(cluster.Ref, string) cluster.Position
}

// Desired is what one node should look like for an input: a value.
type Desired struct {
	Objects cluster.Objects
	// Pods are the Pods with the status they have, or will have once the Pod
	// plan is applied.
	Pods []*corev1.Pod
	// Made names the Pods that this node makes; the others carry an address in
	// their manifests and are somebody else's.
	Made map[types.NamespacedName]bool
	// Slices are the EndpointSlices of every Service, sorted by namespace and name.
	Slices []*discoveryv1.EndpointSlice
	Table  dataplane.Table
	// Problems are those of the input and those found on the way.
	Problems []cluster.Problem
	// Node is the node it is for, with what its object says.
	Node Node
	// Locate finds where a field of an object stands in the manifests. May be nil.
	Locate func(cluster.Ref, string) cluster.Position
}

// Node is what a table depends on beside the objects. Where Zone and Primary are
// empty, Resolve takes them from the Node object of that name.
type Node = balance.Node

// Resolve computes what the node should look like: selectors to endpoints to
// table. Pods replaces the Pods of the input. Pure.
func Resolve(in Input, node Node, pods []*corev1.Pod) Desired {
	objs := in.Objects
	objs.Pods = pods
	index := endpoints.New()
	index.Apply(cluster.NewStore().Replace(objs))
	slices := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
	d := Desired{Objects: objs, Pods: pods, Made: Made(in.Objects.Pods), Node: complete(node, objs.Nodes), Locate: in.Locate}
	for _, svc := range objs.Services {
		key := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
		slices[key] = index.Resolve(key)
		d.Slices = append(d.Slices, slices[key]...)
	}
	var found []cluster.Problem
	d.Table, found = balance.Build(d.Node, objs.Services,
		func(key types.NamespacedName) []*discoveryv1.EndpointSlice { return slices[key] })
	d.Problems = append(append(d.Problems, in.Problems...), place(found, in.Locate)...)
	return d
}

// complete adds what the Node object says.
func complete(n Node, nodes []*corev1.Node) Node {
	if n.Zone == "" {
		n.Zone = balance.ZoneOf(nodes, n.Name)
	}
	if len(n.Primary) == 0 {
		n.Primary = balance.PrimaryAddrs(nodes, n.Name)
	}
	return n
}

// Made names the Pods of an input that a node has to make: those without an
// address.
func Made(pods []*corev1.Pod) map[types.NamespacedName]bool {
	made := map[types.NamespacedName]bool{}
	for _, p := range pods {
		if p.Status.PodIP == "" {
			made[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = true
		}
	}
	return made
}

// Makes tells whether this node makes the Pod.
func (d Desired) Makes(p *corev1.Pod) bool {
	return d.Made[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
}

// place fills in where the objects of problems stand in the manifests.
func place(problems []cluster.Problem, locate func(cluster.Ref, string) cluster.Position) []cluster.Problem {
	if locate == nil {
		return problems
	}
	for i, p := range problems {
		if p.File == "" {
			problems[i].Position = locate(p.Object, p.Field)
		}
	}
	return problems
}

// Errors returns the problems that leave an object or a part of it out.
func (d Desired) Errors() []cluster.Problem {
	var out []cluster.Problem
	for _, p := range d.Problems {
		if !p.Warning {
			out = append(out, p)
		}
	}
	return out
}

// CountErrors counts the problems that are no mere warnings.
func CountErrors(problems []cluster.Problem) int { return len(Desired{Problems: problems}.Errors()) }

// EndpointCount is the number of distinct endpoint addresses of the table.
func (d Desired) EndpointCount() int {
	seen := map[netip.AddrPort]bool{}
	for _, s := range d.Table.Sets {
		for _, e := range s.Endpoints {
			seen[e.Addr] = true
		}
	}
	return len(seen)
}

// ServiceName cuts the port from an origin: "default/web:http" → "default/web".
func ServiceName(origin string) string {
	name, _, _ := strings.Cut(origin, ":")
	return name
}
