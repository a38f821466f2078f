package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// madeAt is the annotation of a Pod that says when it was made, to the nanosecond:
// creationTimestamp holds seconds, and "newest first" must be right within one.
const madeAt = "toyproxy.dev/made-at"

// ended: it will never run again. Its set has lost it.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// ending: somebody has asked for its end.
func ending(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }

// alive Pods are those that count.
func alive(p *corev1.Pod) bool { return !ended(p) && !ending(p) }

// ready tells whether a living Pod is ready.
func ready(p *corev1.Pod) bool {
	c := condition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue && alive(p)
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// readySince is when a ready Pod became so. A status without that time is taken to
// have been ready since the youngest of its containers runs.
func readySince(p *corev1.Pod) time.Time {
	if c := condition(p, corev1.PodReady); c != nil && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	since := born(p)
	for _, c := range p.Status.ContainerStatuses {
		if run := c.State.Running; run != nil && run.StartedAt.After(since) {
			since = run.StartedAt.Time
		}
	}
	return since
}

// availableAt is when a Pod is available: ready for so many seconds. Zero: not
// before its status changes.
func availableAt(p *corev1.Pod, minReadySeconds int32) time.Time {
	if !ready(p) {
		return time.Time{}
	}
	return readySince(p).Add(time.Duration(minReadySeconds) * time.Second)
}

// born is when the Pod was made.
func born(p *corev1.Pod) time.Time {
	made, err := time.Parse(time.RFC3339Nano, p.Annotations[madeAt])
	if created := p.CreationTimestamp; err == nil && (created.IsZero() || made.Truncate(time.Second).Equal(created.Truncate(time.Second))) {
		return made
	}
	return p.CreationTimestamp.Time
}

// members are the Pods of one owner.
type members struct {
	// living count; leaving have a deletionTimestamp; lost have ended.
	living, leaving, lost []*corev1.Pod
}

func (m *members) add(p *corev1.Pod) {
	switch {
	case ending(p):
		m.leaving = append(m.leaving, p)
	case ended(p):
		m.lost = append(m.lost, p)
	default:
		m.living = append(m.living, p)
	}
}

// tally is how the living Pods of one owner are.
type tally struct {
	replicas, labeled, ready, available int32
}

// count tallies living Pods. labeled are those with all labels of the template.
func (p *pass) count(pods []*corev1.Pod, minReadySeconds int32, template labels.Set) tally {
	t := tally{replicas: int32(len(pods))}
	full := template.AsSelectorPreValidated()
	for _, pod := range pods {
		if full.Matches(labels.Set(pod.Labels)) {
			t.labeled++
		}
		if ready(pod) {
			t.ready++
		}
		if p.available(pod, minReadySeconds) {
			t.available++
		}
	}
	return t
}

// available tells whether the Pod is now, and notes when to look again otherwise.
func (p *pass) available(pod *corev1.Pod, minReadySeconds int32) bool {
	at := availableAt(pod, minReadySeconds)
	switch {
	case at.IsZero() && !ready(pod):
		return false
	case minReadySeconds > 0 && at.After(p.in.Now):
		p.again(at)
		return false
	}
	return true
}
