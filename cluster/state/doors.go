package state

import (
	"errors"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// Doors are the live objects of Ingress and of the Gateway API. Two hands write
// them: manifests all but the status, and who serves them the status alone. Both go
// through Dir.Update, so that neither undoes the other.
type Doors struct {
	Ingresses       Dir[*networkingv1.Ingress]
	IngressClasses  Dir[*networkingv1.IngressClass]
	GatewayClasses  Dir[*gatewayv1.GatewayClass]
	Gateways        Dir[*gatewayv1.Gateway]
	HTTPRoutes      Dir[*gatewayv1.HTTPRoute]
	ReferenceGrants Dir[*gatewayv1.ReferenceGrant]
}

// OpenDoors returns the front doors below a state directory.
func OpenDoors(stateDir string) Doors {
	return Doors{
		Ingresses:       openKind[*networkingv1.Ingress](stateDir, cluster.Ingress),
		IngressClasses:  openKind[*networkingv1.IngressClass](stateDir, cluster.IngressClass),
		GatewayClasses:  openKind[*gatewayv1.GatewayClass](stateDir, cluster.GatewayClass),
		Gateways:        openKind[*gatewayv1.Gateway](stateDir, cluster.Gateway),
		HTTPRoutes:      openKind[*gatewayv1.HTTPRoute](stateDir, cluster.HTTPRoute),
		ReferenceGrants: openKind[*gatewayv1.ReferenceGrant](stateDir, cluster.ReferenceGrant),
	}
}

func openKind[T metav1.Object](stateDir string, kind cluster.Kind) Dir[T] {
	return Open(stateDir, Directories(kind)[0], func() T { return Empty(kind).(T) })
}

// DoorKinds are the kinds of Doors.
func DoorKinds() []cluster.Kind {
	return []cluster.Kind{cluster.Ingress, cluster.IngressClass, cluster.GatewayClass, cluster.Gateway, cluster.HTTPRoute, cluster.ReferenceGrant}
}

// DoorDirs are the names of the directories below a state directory that Doors use.
func DoorDirs() []string {
	var names []string
	for _, kind := range DoorKinds() {
		names = append(names, Directories(kind)...)
	}
	return names
}

// Read returns what is there. Damaged files are named in the error; the objects are
// good all the same.
func (d Doors) Read() (cluster.Objects, error) {
	var o cluster.Objects
	var errs [6]error
	o.Ingresses, errs[0] = d.Ingresses.List()
	o.IngressClasses, errs[1] = d.IngressClasses.List()
	o.GatewayClasses, errs[2] = d.GatewayClasses.List()
	o.Gateways, errs[3] = d.Gateways.List()
	o.HTTPRoutes, errs[4] = d.HTTPRoutes.List()
	o.ReferenceGrants, errs[5] = d.ReferenceGrants.List()
	return o, errors.Join(errs[:]...)
}

// write makes the kept objects equal to these, but for their status.
func (d Doors) write(o cluster.Objects, now time.Time) error {
	return errors.Join(
		succeedAll(d.Ingresses, o.Ingresses, carryIngress, now),
		succeedAll(d.IngressClasses, o.IngressClasses, carryIngressClass, now),
		succeedAll(d.GatewayClasses, o.GatewayClasses, carryGatewayClass, now),
		succeedAll(d.Gateways, o.Gateways, carryGateway, now),
		succeedAll(d.HTTPRoutes, o.HTTPRoutes, carryRoute, now),
		succeedAll(d.ReferenceGrants, o.ReferenceGrants, carryGrant, now),
	)
}

// follow makes the kept object follow the change of one, but for its status.
func (d Doors) follow(e cluster.Event, now time.Time) error {
	switch e.Object.Kind {
	case cluster.Ingress:
		return succeed(d.Ingresses, e, carryIngress, now)
	case cluster.IngressClass:
		return succeed(d.IngressClasses, e, carryIngressClass, now)
	case cluster.GatewayClass:
		return succeed(d.GatewayClasses, e, carryGatewayClass, now)
	case cluster.Gateway:
		return succeed(d.Gateways, e, carryGateway, now)
	case cluster.HTTPRoute:
		return succeed(d.HTTPRoutes, e, carryRoute, now)
	case cluster.ReferenceGrant:
		return succeed(d.ReferenceGrants, e, carryGrant, now)
	}
	return nil
}

// copyable is an object of a kind whose objects can be copied.
type copyable[T any] interface {
	metav1.Object
	DeepCopy() T
}

// succeedAll makes a directory hold exactly these objects, each the successor of
// the one it had.
func succeedAll[T copyable[T]](d Dir[T], objs []T, carry func(next, old T) (same bool), now time.Time) error {
	var errs []error
	stay := map[types.NamespacedName]bool{}
	for _, obj := range objs {
		name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
		stay[name] = true
		errs = append(errs, succeed(d, cluster.Event{Object: cluster.Ref{NamespacedName: name}, New: obj}, carry, now))
	}
	kept, err := d.List()
	var damaged *CorruptError
	if err != nil && !errors.As(err, &damaged) {
		errs = append(errs, err)
	}
	for _, obj := range kept {
		if name := (types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}); !stay[name] {
			errs = append(errs, d.Delete(name))
		}
	}
	return errors.Join(errs...)
}

// succeed writes an object in place of the one before it, or removes that one.
// Carry gives the next object the status of the old one, and tells whether their
// specs are the same.
func succeed[T copyable[T]](d Dir[T], e cluster.Event, carry func(next, old T) (same bool), now time.Time) error {
	obj, ok := e.New.(T)
	if !ok {
		return d.Delete(e.Object.NamespacedName)
	}
	return d.Update(e.Object.NamespacedName, func(old T, exists bool) (T, bool) {
		next := obj.DeepCopy()
		generation, born := int64(1), metav1.NewTime(now)
		if exists {
			born = old.GetCreationTimestamp()
			generation = max(old.GetGeneration(), 1)
			if !carry(next, old) {
				generation++
			}
		}
		if written := next.GetCreationTimestamp(); written.IsZero() {
			next.SetCreationTimestamp(born)
		}
		next.SetGeneration(generation)
		return next, true
	})
}

func carryIngress(next, old *networkingv1.Ingress) bool {
	next.Status = old.Status
	return equality.Semantic.DeepEqual(next.Spec, old.Spec)
}

func carryIngressClass(next, old *networkingv1.IngressClass) bool {
	return equality.Semantic.DeepEqual(next.Spec, old.Spec)
}

func carryGatewayClass(next, old *gatewayv1.GatewayClass) bool {
	next.Status = old.Status
	return equality.Semantic.DeepEqual(next.Spec, old.Spec)
}

func carryGateway(next, old *gatewayv1.Gateway) bool {
	next.Status = old.Status
	return equality.Semantic.DeepEqual(next.Spec, old.Spec)
}

func carryRoute(next, old *gatewayv1.HTTPRoute) bool {
	next.Status = old.Status
	return equality.Semantic.DeepEqual(next.Spec, old.Spec)
}

func carryGrant(next, old *gatewayv1.ReferenceGrant) bool {
	return equality.Semantic.DeepEqual(next.Spec, old.Spec)
}
