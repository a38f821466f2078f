package gateway

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// ControllerName is what spec.controllerName of a GatewayClass says for it to be ours,
// unless Input.Controller says otherwise.
const ControllerName gatewayv1.GatewayController = "toyproxy.dev/gateway-controller"

// Input is what a Config is made of.
type Input struct {
	// Objects are all of the cluster: GatewayClasses, Gateways, HTTPRoutes,
	// ReferenceGrants, and the Namespaces, Services and Secrets these refer to. Their
	// statuses are the old ones: times of what stays as it was are kept.
	Objects cluster.Objects
	// Controller is the spec.controllerName of our classes; "" is ControllerName. Of two
	// proxies with different ones neither serves what is the other's.
	Controller gatewayv1.GatewayController
	// Gateways are the only ones that are served, and whose statuses are made; none:
	// all. A Gateway that must not share ports with others has a proxy of its own.
	Gateways []types.NamespacedName
	// Addresses are where clients reach the proxy: IP addresses, or host names.
	Addresses []string
	// Ports are those that clients reach; none: all.
	Ports []uint16
	// Taken are ports that others have, those of Ingress: a listener may share one that
	// speaks its protocol.
	Taken []ingress.Port
	// Now is the time of conditions that change.
	Now metav1.Time
}

// Output is a Config, and what its objects are told.
type Output struct {
	Config ingress.Config
	// Classes, Gateways and Routes are the new statuses of the objects that are ours.
	// Parents of HTTPRoutes that others look after are in there as they were.
	Classes  map[string]gatewayv1.GatewayClassStatus
	Gateways map[types.NamespacedName]gatewayv1.GatewayStatus
	Routes   map[types.NamespacedName]gatewayv1.HTTPRouteStatus
}

// Compile makes the Config of all Gateways that are served. It is the same for any
// order of the objects.
func Compile(in Input) Output {
	if in.Controller == "" {
		in.Controller = ControllerName
	}
	w := newWorld(in)
	out := Output{
		Classes:  map[string]gatewayv1.GatewayClassStatus{},
		Gateways: map[types.NamespacedName]gatewayv1.GatewayStatus{},
	}
	for _, class := range in.Objects.GatewayClasses {
		if class.Spec.ControllerName == in.Controller {
			out.Classes[class.Name] = classStatus(class, in.Now)
		}
	}
	gateways := w.gateways()
	out.Routes = w.attach(gateways)
	configs := make([]ingress.Config, 0, len(gateways))
	for _, g := range gateways {
		configs = append(configs, g.config())
		out.Gateways[key(g.object)] = g.status(in)
	}
	out.Config = ingress.Join(configs...)
	return out
}

// Changed returns copies of the objects whose status is another now, with the new
// one: what has to be written back, in order of kind, namespace and name.
func (o Output) Changed(objs cluster.Objects) []metav1.Object {
	var out []metav1.Object
	for _, class := range objs.GatewayClasses {
		if status, ok := o.Classes[class.Name]; ok && !equality.Semantic.DeepEqual(status, class.Status) {
			changed := class.DeepCopy()
			changed.Status = status
			out = append(out, changed)
		}
	}
	for _, gw := range objs.Gateways {
		if status, ok := o.Gateways[key(gw)]; ok && !equality.Semantic.DeepEqual(status, gw.Status) {
			changed := gw.DeepCopy()
			changed.Status = status
			out = append(out, changed)
		}
	}
	for _, route := range objs.HTTPRoutes {
		if status, ok := o.Routes[key(route)]; ok && !equality.Semantic.DeepEqual(status, route.Status) {
			changed := route.DeepCopy()
			changed.Status = status
			out = append(out, changed)
		}
	}
	return out
}

// world is the Input by name.
type world struct {
	Input
	classes    map[string]*gatewayv1.GatewayClass
	namespaces map[string]labels
	services   map[types.NamespacedName]*corev1.Service
	secrets    map[types.NamespacedName]*corev1.Secret
	grants     map[string][]*gatewayv1.ReferenceGrant // by namespace
}

type labels = map[string]string

func newWorld(in Input) *world {
	w := &world{
		Input:      in,
		classes:    map[string]*gatewayv1.GatewayClass{},
		namespaces: make(map[string]labels, len(in.Objects.Namespaces)),
		services:   byName(in.Objects.Services),
		secrets:    byName(in.Objects.Secrets),
		grants:     map[string][]*gatewayv1.ReferenceGrant{},
	}
	for _, class := range in.Objects.GatewayClasses {
		if class.Spec.ControllerName == in.Controller {
			w.classes[class.Name] = class
		}
	}
	for _, ns := range in.Objects.Namespaces {
		w.namespaces[ns.Name] = ns.Labels
	}
	for _, grant := range in.Objects.ReferenceGrants {
		w.grants[grant.Namespace] = append(w.grants[grant.Namespace], grant)
	}
	return w
}

// labelsOf returns the labels of a namespace. Every API server puts the name among
// them; manifests need not have the object at all.
func (w *world) labelsOf(namespace string) labels {
	out := labels{corev1.LabelMetadataName: namespace}
	maps.Copy(out, w.namespaces[namespace])
	return out
}

// serves says whether a Gateway is one of ours.
func (w *world) serves(gw *gatewayv1.Gateway) bool {
	_, ours := w.classes[string(gw.Spec.GatewayClassName)]
	return ours && (len(w.Gateways) == 0 || slices.Contains(w.Gateways, key(gw)))
}

func byName[T metav1.Object](objs []T) map[types.NamespacedName]T {
	out := make(map[types.NamespacedName]T, len(objs))
	for _, obj := range objs {
		out[key(obj)] = obj
	}
	return out
}

func key(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// older orders objects as the API breaks ties: by age, then by namespace and name.
func older(a, b metav1.Object) int {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}
