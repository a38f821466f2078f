package state

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// WriteEvents does for objects that have changed what Write does for all. Slices
// are written by WriteSlices.
func (l Live) WriteEvents(events []cluster.Event, isLocal func(*corev1.Pod) bool, now time.Time) error {
	var errs []error
	for _, e := range events {
		switch e.Object.Kind {
		case cluster.Service:
			errs = append(errs, follow(l.services, e, now))
		case cluster.Node:
			errs = append(errs, follow(l.nodes, e, now))
		case cluster.Namespace:
			errs = append(errs, follow(l.namespaces, e, now))
		case cluster.ConfigMap:
			errs = append(errs, follow(l.workloads.ConfigMaps, e, now))
		case cluster.Secret:
			errs = append(errs, follow(l.workloads.Secrets, e, now))
		case cluster.Pod:
			errs = append(errs, l.followRemote(e, isLocal, now))
		default:
			errs = append(errs, l.doors.follow(e, now))
		}
	}
	return errors.Join(errs...)
}

// followRemote writes a Pod that is somebody else's.
func (l Live) followRemote(e cluster.Event, isLocal func(*corev1.Pod) bool, now time.Time) error {
	if p, ok := e.New.(*corev1.Pod); ok && isLocal(p) {
		e.New = nil
	}
	return follow(l.remote, e, now)
}

// follow makes a directory follow the change of one object.
func follow[T interface {
	metav1.Object
	DeepCopy() T
}](d Dir[T], e cluster.Event, now time.Time) error {
	obj, ok := e.New.(T)
	if !ok {
		return d.Delete(e.Object.NamespacedName)
	}
	_, err := d.Save(dated(d, []T{obj}, now)[0])
	return err
}

// WriteSlices makes the kept slices of one Service equal to these: Before are the
// names of those that it had.
func (l Live) WriteSlices(before []types.NamespacedName, after []*discoveryv1.EndpointSlice, now time.Time) error {
	var errs []error
	for _, s := range dated(l.slices, after, now) {
		_, err := l.slices.Save(s)
		errs = append(errs, err)
	}
	for _, name := range before {
		stays := slices.ContainsFunc(after, func(s *discoveryv1.EndpointSlice) bool {
			return s.Name == name.Name && s.Namespace == name.Namespace
		})
		if !stays {
			errs = append(errs, l.slices.Delete(name))
		}
	}
	return errors.Join(errs...)
}
