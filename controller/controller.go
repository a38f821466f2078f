package controller

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Input is everything that decides. The objects are shared: read only.
type Input struct {
	// Wanted: Deployments, StatefulSets, DaemonSets, and ReplicaSets that nobody
	// owns, as people want them, with the status that an earlier pass gave them.
	Deployments  []*appsv1.Deployment
	StatefulSets []*appsv1.StatefulSet
	DaemonSets   []*appsv1.DaemonSet
	ReplicaSets  []*appsv1.ReplicaSet
	// OwnedSets are the ReplicaSets that Deployments own, as kept.
	OwnedSets []*appsv1.ReplicaSet
	// Revisions are the histories of StatefulSets and DaemonSets, as kept.
	Revisions []*appsv1.ControllerRevision
	// Pods are all Pods of the node, with the status they have now. One with a
	// deletionTimestamp is ending.
	Pods []*corev1.Pod
	// Fixed are Pods that somebody wants by their names (a manifest): no set adopts
	// them, though its selector matches.
	Fixed map[types.NamespacedName]bool
	// Node is where new Pods go.
	Node string
	// NodeLabels are those of the Node object, which a DaemonSet may ask for. The
	// names of node, operating system and architecture are known without.
	NodeLabels map[string]string
	// Now decides about back-off, minReadySeconds and deadlines.
	Now time.Time
	// MaxActions bounds how many Pods one pass makes and ends; 0: no bound.
	MaxActions int
	// Suffix returns the ending of a new Pod's name, another one each time; nil: the
	// endings follow from owner and time.
	Suffix func() string
}

// Op is what an action does.
type Op string

// The kinds of actions.
const (
	Create Op = "create"
	Delete Op = "delete"
	// Update changes metadata only (labels, owners), or the scale and annotations
	// of a ReplicaSet: Pods are never changed in place.
	Update Op = "update"
)

// Action is one thing to do. Object is a *corev1.Pod, a *appsv1.ReplicaSet or a
// *appsv1.ControllerRevision, whole as it is to be; for Delete, as it is.
type Action struct {
	Op     Op
	Object metav1.Object
	// Owner is the object whose doing it is: Deployment default/web.
	Owner cluster.Ref
	// Reason says for people why: "2 of 3 replicas", "rolling update to revision 4".
	Reason string
}

// Result is what one pass decides.
type Result struct {
	// Actions in their order.
	Actions []Action
	// Deployments, StatefulSets, DaemonSets and ReplicaSets are those objects whose
	// status is another than in the input, with the new status; a Deployment with the
	// annotation deployment.kubernetes.io/revision too. A ReplicaSet that an action
	// changes as well is the same object here and there.
	Deployments  []*appsv1.Deployment
	StatefulSets []*appsv1.StatefulSet
	DaemonSets   []*appsv1.DaemonSet
	ReplicaSets  []*appsv1.ReplicaSet
	// Again is when to look again though nothing has changed (minReadySeconds, a
	// deadline); zero: there is no need to.
	Again time.Time
	// Bounded says that MaxActions has kept something back: call again at once.
	Bounded bool
	// Events tell people what happened, as kubectl shows them.
	Events []Event
	// Problems are objects that cannot be acted on, and why.
	Problems []cluster.Problem
}

// Event is something that happened to an object, as in kubectl get events.
type Event struct {
	Object cluster.Ref
	// Warning: it is of type Warning, else Normal.
	Warning bool
	// Reason is one word ("ScalingReplicaSet"), Message a sentence.
	Reason, Message string
}
