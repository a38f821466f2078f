package rollout

import (
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Template is a workload's template of a Pod, not a copy; nil for other objects.
func Template(obj metav1.Object) *corev1.PodTemplateSpec {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return &obj.Spec.Template
	case *appsv1.ReplicaSet:
		return &obj.Spec.Template
	case *appsv1.StatefulSet:
		return &obj.Spec.Template
	case *appsv1.DaemonSet:
		return &obj.Spec.Template
	}
	return nil
}

// nameOf names the kind of a workload in sentences.
func nameOf(obj metav1.Object) string {
	kind := fmt.Sprintf("%T", obj)
	return strings.ToLower(kind[strings.LastIndexByte(kind, '.')+1:])
}

// Restart makes every Pod of a workload be replaced.
func Restart(obj metav1.Object, now time.Time) error {
	if d, ok := obj.(*appsv1.Deployment); ok && d.Spec.Paused {
		return errors.New("can't restart paused deployment (run rollout resume first)")
	}
	t := Template(obj)
	if _, set := obj.(*appsv1.ReplicaSet); t == nil || set {
		return errors.New("restarting is not supported")
	}
	if t.Annotations == nil {
		t.Annotations = map[string]string{}
	}
	stamp := now.Format(time.RFC3339)
	if t.Annotations[restartedKey] == stamp {
		return errors.New("was restarted within this second; try again in the next")
	}
	t.Annotations[restartedKey] = stamp
	return nil
}

// Pause makes a Deployment gather changes of its template without acting on them.
func Pause(obj metav1.Object) error {
	d, ok := obj.(*appsv1.Deployment)
	switch {
	case !ok:
		return errors.New("pausing is not supported")
	case d.Spec.Paused:
		return errors.New("is already paused")
	}
	d.Spec.Paused = true
	return nil
}

// Resume ends Pause.
func Resume(obj metav1.Object) error {
	d, ok := obj.(*appsv1.Deployment)
	switch {
	case !ok:
		return errors.New("resuming is not supported")
	case !d.Spec.Paused:
		return errors.New("is not paused")
	}
	d.Spec.Paused = false
	return nil
}

// Scale sets how many Pods a workload has. Unless current is negative, it must be
// that many now.
func Scale(obj metav1.Object, replicas, current int32) error {
	var field **int32
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		field = &obj.Spec.Replicas
	case *appsv1.ReplicaSet:
		field = &obj.Spec.Replicas
	case *appsv1.StatefulSet:
		field = &obj.Spec.Replicas
	default:
		return fmt.Errorf("a %s cannot be scaled: there is one Pod a node", nameOf(obj))
	}
	if have := valueOf(*field, 1); current >= 0 && have != current {
		return fmt.Errorf("Expected replicas to be %d, was %d", current, have)
	}
	*field = &replicas
	return nil
}
