package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/controller"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/pods"
)

// Source yields the objects as people want them.
type Source interface {
	// Load reads all objects anew.
	Load(context.Context) (Input, error)
	// Settle says which node an input is for, as things stand now: it is called
	// for every look at the node's own addresses.
	Settle(context.Context, Input) (Setting, error)
}

// Setting is a node and what it is to hold.
type Setting struct {
	// Input has only Pods that are somebody else's, or to be made on this node.
	Input Input
	Node  Node
	// Pods makes Pods; nil where none are to be made: then those of the input are
	// taken as they are.
	Pods PodRuntime
}

// PodRuntime keeps the Pods of a node, as pods.Runtime does. None of its methods
// waits for a process.
type PodRuntime interface {
	PodKeeper
	PodMaker
}

// PodKeeper tells what there is of the Pods.
type PodKeeper interface {
	// Survey returns what there is. The error beside it names what could not be read.
	Survey(context.Context) ([]pods.Seen, error)
	// Change changes the object of a Pod.
	Change(context.Context, types.NamespacedName, func(*corev1.Pod) bool) error
}

// PodMaker makes and ends Pods.
type PodMaker interface {
	// Make begins to make Pods, and returns those that failed.
	Make(context.Context, []*corev1.Pod) map[types.NamespacedName]error
	// End tells Pods to end.
	End(context.Context, []pods.Seen) error
	// Bury takes away what Pods that have ended have left.
	Bury(context.Context, []pods.Seen) error
	// Repair plans to mend what somebody has taken away of the Pods' networks.
	Repair(context.Context, []*corev1.Pod) (dataplane.Plan, error)
}

// Workloads keeps the live workloads of a node: Deployments and their like with
// their status, and what the controller makes of them.
type Workloads interface {
	// Merge applies the workloads of manifests onto the live ones, and returns these.
	Merge(context.Context, cluster.Objects) (controller.Input, []cluster.Problem, error)
	// Keep writes down what a pass has decided, but for Pods.
	Keep(context.Context, controller.Result) error
}

// Chronicle keeps the live objects of a node where other processes find them.
type Chronicle interface {
	Recorder
	// RecordChange writes what has changed since: the objects of events, and all
	// slices of some Services, which may be none.
	RecordChange(context.Context, Changed) error
}

// Changed is what of the live objects is another than before.
type Changed struct {
	Events []cluster.Event
	// Slices are all EndpointSlices of the Services that were touched.
	Slices map[types.NamespacedName][]*discoveryv1.EndpointSlice
}
