package cluster

import (
	"iter"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Objects is one complete set of objects, each list sorted by namespace and
// name and free of duplicates. The objects are shared: read only.
type Objects struct {
	Services       []*corev1.Service
	Pods           []*corev1.Pod
	EndpointSlices []*discoveryv1.EndpointSlice
	Nodes          []*corev1.Node
	Namespaces     []*corev1.Namespace
	ConfigMaps     []*corev1.ConfigMap
	Secrets        []*corev1.Secret
	Deployments    []*appsv1.Deployment
	ReplicaSets    []*appsv1.ReplicaSet
	StatefulSets   []*appsv1.StatefulSet
	DaemonSets     []*appsv1.DaemonSet

	Ingresses       []*networkingv1.Ingress
	IngressClasses  []*networkingv1.IngressClass
	GatewayClasses  []*gatewayv1.GatewayClass
	Gateways        []*gatewayv1.Gateway
	HTTPRoutes      []*gatewayv1.HTTPRoute
	ReferenceGrants []*gatewayv1.ReferenceGrant
}

// Event is one object that came, changed or went. Old is nil for what came,
// New for what went; both are of the Go type that Object.Kind names.
type Event struct {
	Object   Ref
	Old, New metav1.Object
}

// Store keeps the current objects and turns a new complete set into events.
// It is not safe for concurrent use: the agent owns it.
type Store struct {
	objects map[Ref]metav1.Object
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{objects: map[Ref]metav1.Object{}} }

// Replace makes the store hold exactly these objects and returns what changed,
// ordered by kind, namespace and name. Equal objects give no event.
func (s *Store) Replace(objs Objects) []Event {
	next := objs.byRef()
	var events []Event
	for ref, obj := range next {
		old, ok := s.objects[ref]
		switch {
		case !ok:
			events = append(events, Event{Object: ref, New: obj})
		case !equality.Semantic.DeepEqual(old, obj):
			events = append(events, Event{Object: ref, Old: old, New: obj})
		}
	}
	for ref, old := range s.objects {
		if _, ok := next[ref]; !ok {
			events = append(events, Event{Object: ref, Old: old})
		}
	}
	s.objects = next
	slices.SortFunc(events, func(a, b Event) int { return a.Object.Compare(b.Object) })
	return events
}

// Get returns the object of that name, or nil.
func (s *Store) Get(ref Ref) metav1.Object { return s.objects[ref] }

// Objects returns everything in the store.
func (s *Store) Objects() Objects {
	var out Objects
	for _, ref := range slices.SortedFunc(maps.Keys(s.objects), Ref.Compare) {
		out.Add(s.objects[ref])
	}
	return out
}

// Refs yields the names of all objects.
func (o Objects) Refs() iter.Seq[Ref] { return maps.Keys(o.byRef()) }

func (o Objects) byRef() map[Ref]metav1.Object {
	m := make(map[Ref]metav1.Object, len(o.Services)+len(o.Pods)+len(o.EndpointSlices)+len(o.Nodes)+len(o.Namespaces))
	put(m, Service, o.Services)
	put(m, Pod, o.Pods)
	put(m, EndpointSlice, o.EndpointSlices)
	put(m, Node, o.Nodes)
	put(m, Namespace, o.Namespaces)
	put(m, ConfigMap, o.ConfigMaps)
	put(m, Secret, o.Secrets)
	put(m, Deployment, o.Deployments)
	put(m, ReplicaSet, o.ReplicaSets)
	put(m, StatefulSet, o.StatefulSets)
	put(m, DaemonSet, o.DaemonSets)
	put(m, Ingress, o.Ingresses)
	put(m, IngressClass, o.IngressClasses)
	put(m, GatewayClass, o.GatewayClasses)
	put(m, Gateway, o.Gateways)
	put(m, HTTPRoute, o.HTTPRoutes)
	put(m, ReferenceGrant, o.ReferenceGrants)
	return m
}

func put[T metav1.Object](m map[Ref]metav1.Object, kind Kind, objs []T) {
	for _, obj := range objs {
		m[Ref{kind, types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}] = obj
	}
}

// Add appends an object to the list of its kind: whoever adds keeps the order.
func (o *Objects) Add(obj metav1.Object) {
	switch obj := obj.(type) {
	case *corev1.Service:
		o.Services = append(o.Services, obj)
	case *corev1.Pod:
		o.Pods = append(o.Pods, obj)
	case *discoveryv1.EndpointSlice:
		o.EndpointSlices = append(o.EndpointSlices, obj)
	case *corev1.Node:
		o.Nodes = append(o.Nodes, obj)
	case *corev1.Namespace:
		o.Namespaces = append(o.Namespaces, obj)
	case *corev1.ConfigMap:
		o.ConfigMaps = append(o.ConfigMaps, obj)
	case *corev1.Secret:
		o.Secrets = append(o.Secrets, obj)
	case *appsv1.Deployment:
		o.Deployments = append(o.Deployments, obj)
	case *appsv1.ReplicaSet:
		o.ReplicaSets = append(o.ReplicaSets, obj)
	case *appsv1.StatefulSet:
		o.StatefulSets = append(o.StatefulSets, obj)
	case *appsv1.DaemonSet:
		o.DaemonSets = append(o.DaemonSets, obj)
	default:
		o.addDoor(obj)
	}
}

// addDoor adds an object of a kind that is for Ingress or the Gateway API.
func (o *Objects) addDoor(obj metav1.Object) {
	switch obj := obj.(type) {
	case *networkingv1.Ingress:
		o.Ingresses = append(o.Ingresses, obj)
	case *networkingv1.IngressClass:
		o.IngressClasses = append(o.IngressClasses, obj)
	case *gatewayv1.GatewayClass:
		o.GatewayClasses = append(o.GatewayClasses, obj)
	case *gatewayv1.Gateway:
		o.Gateways = append(o.Gateways, obj)
	case *gatewayv1.HTTPRoute:
		o.HTTPRoutes = append(o.HTTPRoutes, obj)
	case *gatewayv1.ReferenceGrant:
		o.ReferenceGrants = append(o.ReferenceGrants, obj)
	}
}
