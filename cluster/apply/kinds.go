package apply

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/toyproxy/toyproxy/cluster"
)

// This file knows what differs between the kinds.

// empty returns a new object of the type of another.
func empty[T Workload[T]](like T) T {
	switch any(like).(type) {
	case *appsv1.Deployment:
		return any(&appsv1.Deployment{}).(T)
	case *appsv1.ReplicaSet:
		return any(&appsv1.ReplicaSet{}).(T)
	case *appsv1.StatefulSet:
		return any(&appsv1.StatefulSet{}).(T)
	default:
		return any(&appsv1.DaemonSet{}).(T)
	}
}

func refOf(obj metav1.Object) cluster.Ref {
	kind := cluster.Kind("")
	switch obj.(type) {
	case *appsv1.Deployment:
		kind = cluster.Deployment
	case *appsv1.ReplicaSet:
		kind = cluster.ReplicaSet
	case *appsv1.StatefulSet:
		kind = cluster.StatefulSet
	case *appsv1.DaemonSet:
		kind = cluster.DaemonSet
	case *corev1.ConfigMap:
		kind = cluster.ConfigMap
	case *corev1.Secret:
		kind = cluster.Secret
	}
	return cluster.MakeRef(kind, obj.GetNamespace(), obj.GetName())
}

func specOf(obj any) any {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return obj.Spec
	case *appsv1.ReplicaSet:
		return obj.Spec
	case *appsv1.StatefulSet:
		return obj.Spec
	case *appsv1.DaemonSet:
		return obj.Spec
	}
	return nil
}

func clearStatus(obj any) {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		obj.Status = appsv1.DeploymentStatus{}
	case *appsv1.ReplicaSet:
		obj.Status = appsv1.ReplicaSetStatus{}
	case *appsv1.StatefulSet:
		obj.Status = appsv1.StatefulSetStatus{}
	case *appsv1.DaemonSet:
		obj.Status = appsv1.DaemonSetStatus{}
	}
}

// Immutable says which changes of an object an API server refuses, whoever makes
// them. Both are of the same kind.
func Immutable(old, next metav1.Object) field.ErrorList {
	var c changes
	spec := field.NewPath("spec")
	switch old := old.(type) {
	case *appsv1.Deployment:
		c.refuse(spec.Child("selector"), old.Spec.Selector, next.(*appsv1.Deployment).Spec.Selector)
	case *appsv1.ReplicaSet:
		c.refuse(spec.Child("selector"), old.Spec.Selector, next.(*appsv1.ReplicaSet).Spec.Selector)
	case *appsv1.DaemonSet:
		c.refuse(spec.Child("selector"), old.Spec.Selector, next.(*appsv1.DaemonSet).Spec.Selector)
	case *appsv1.StatefulSet:
		now := &next.(*appsv1.StatefulSet).Spec
		c.refuse(spec.Child("selector"), old.Spec.Selector, now.Selector)
		c.refuse(spec.Child("serviceName"), old.Spec.ServiceName, now.ServiceName)
		c.refuse(spec.Child("podManagementPolicy"), old.Spec.PodManagementPolicy, now.PodManagementPolicy)
		c.refuse(spec.Child("volumeClaimTemplates"), old.Spec.VolumeClaimTemplates, now.VolumeClaimTemplates)
	case *corev1.ConfigMap:
		c.configMap(old, next.(*corev1.ConfigMap))
	case *corev1.Secret:
		c.secret(old, next.(*corev1.Secret))
	}
	return c.errs
}

// changes gathers what may not be changed.
type changes struct{ errs field.ErrorList }

const immutableText = "field is immutable: it stays as it is until the object is deleted and made anew"

func (c *changes) refuse(path *field.Path, old, next any) {
	if !equality.Semantic.DeepEqual(old, next) {
		c.errs = append(c.errs, field.Invalid(path, next, immutableText))
	}
}

// hidden refuses a change without showing the value.
func (c *changes) hidden(path *field.Path, same bool, why string) {
	if !same {
		c.errs = append(c.errs, field.Forbidden(path, why))
	}
}

const frozenText = "field is immutable when `immutable` is set"

func isTrue(p *bool) bool { return p != nil && *p }

func (c *changes) configMap(old, next *corev1.ConfigMap) {
	if !isTrue(old.Immutable) {
		return
	}
	c.hidden(field.NewPath("immutable"), isTrue(next.Immutable), frozenText)
	c.hidden(field.NewPath("data"), maps.Equal(old.Data, next.Data), frozenText)
	c.hidden(field.NewPath("binaryData"), maps.EqualFunc(old.BinaryData, next.BinaryData, slices.Equal), frozenText)
}

func (c *changes) secret(old, next *corev1.Secret) {
	c.hidden(field.NewPath("type"), old.Type == next.Type, immutableText)
	if !isTrue(old.Immutable) {
		return
	}
	c.hidden(field.NewPath("immutable"), isTrue(next.Immutable), frozenText)
	c.hidden(field.NewPath("data"), maps.EqualFunc(old.Data, next.Data, slices.Equal), frozenText)
}
