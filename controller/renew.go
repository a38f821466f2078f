package controller

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// renew ends Pods of other revisions, from the highest place down to the partition,
// so that the next pass makes them anew: as many as may be unavailable together.
// One that does not serve costs nothing.
func (o *ordered) renew() {
	budget := o.maxUnavailable()
	for _, pod := range o.places {
		if !o.available(pod) {
			budget--
		}
	}
	reason := fmt.Sprintf("rolling update to revision %d", o.update.Revision)
	for i := len(o.places) - 1; i >= min(o.partition(), len(o.places)); i-- {
		pod := o.places[i]
		switch {
		case pod == nil || !alive(pod) || o.updated(pod):
		case !o.available(pod):
			o.remove(pod, reason)
		case budget > 0:
			budget--
			o.remove(pod, reason)
		default:
			return
		}
	}
}

// updated: the Pod is of the template as it is now.
func (o *ordered) updated(pod *corev1.Pod) bool {
	return pod.Labels[appsv1.ControllerRevisionHashLabelKey] == o.update.Name
}

// maxUnavailable is 1 if nothing else is said, and never less.
func (o *ordered) maxUnavailable() int {
	one := intstr.FromInt32(1)
	most := &one
	if u := o.s.Spec.UpdateStrategy.RollingUpdate; u != nil {
		most = orShare(u.MaxUnavailable, one)
	}
	n := o.p.scaled(o.ref, "spec.updateStrategy.rollingUpdate.maxUnavailable", most, int32(len(o.places)), true)
	return max(1, int(n))
}

// finish hands out the status, and forgets revisions that no Pod is of.
func (o *ordered) finish(m members) {
	status := o.s.Status.DeepCopy()
	t := o.p.count(m.living, o.s.Spec.MinReadySeconds, nil)
	status.ObservedGeneration, status.CollisionCount = o.s.Generation, o.collisions
	status.Replicas = t.replicas + int32(len(m.leaving))
	status.ReadyReplicas, status.AvailableReplicas = t.ready, t.available
	status.CurrentRevision, status.UpdateRevision = o.current.Name, o.update.Name
	status.CurrentReplicas, status.UpdatedReplicas = 0, 0
	used := map[string]bool{o.current.Name: true}
	for _, pod := range m.living {
		rev := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
		used[rev] = true
		if rev == o.current.Name {
			status.CurrentReplicas++
		}
		if rev == o.update.Name {
			status.UpdatedReplicas++
		}
	}
	if want := int32(len(o.places)); status.UpdatedReplicas == want && t.ready == want && status.Replicas == want {
		status.CurrentRevision, status.CurrentReplicas = o.update.Name, status.UpdatedReplicas
	}
	o.forget(o.s.Spec.RevisionHistoryLimit, used)
	if !same(&o.s.Status, status) {
		s := o.s.DeepCopy()
		s.Status = *status
		o.p.res.StatefulSets = append(o.p.res.StatefulSets, s)
	}
}
