package controller

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The reasons of conditions, as kubectl and others look for them.
const (
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
	reasonNewSet      = "NewReplicaSetCreated"
	reasonFoundSet    = "FoundNewReplicaSet"
	reasonUpdated     = "ReplicaSetUpdated"
	reasonAvailable   = "NewReplicaSetAvailable"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonEnough      = "MinimumReplicasAvailable"
	reasonUnavailable = "MinimumReplicasUnavailable"
)

// finish hands out the Deployment if its status or revision is another than before.
func (r *rollout) finish() {
	before := r.d.Status
	r.count()
	if r.rolled {
		r.noteProgress(before)
	}
	if same(&before, &r.status) && r.revision == r.d.Annotations[revisionKey] {
		return
	}
	d := r.d.DeepCopy()
	d.Status = r.status
	if r.revision != "" {
		d.Annotations = with(d.Annotations, revisionKey, r.revision)
	}
	r.p.res.Deployments = append(r.p.res.Deployments, d)
}

// count sums up the sets.
func (r *rollout) count() {
	s := &r.status
	var sizes, leaving int32
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas = 0, 0, 0, 0
	for _, set := range r.sets {
		sizes += set.size()
		leaving += int32(len(set.leaving))
		s.Replicas += set.replicas
		s.ReadyReplicas += set.ready
		s.AvailableReplicas += set.available
	}
	if r.current != nil {
		s.UpdatedReplicas = r.current.replicas
	}
	s.UnavailableReplicas = max(0, sizes-s.AvailableReplicas)
	s.TerminatingReplicas = &leaving
	s.ObservedGeneration = r.d.Generation
	if s.AvailableReplicas >= r.want-r.down {
		r.setCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue, reasonEnough, "Deployment has minimum availability.")
	} else {
		r.setCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse, reasonUnavailable, "Deployment does not have minimum availability.")
	}
}

// complete: all Pods are of the current template, and all are available.
func (r *rollout) complete() bool {
	for _, s := range r.old() {
		if s.replicas > 0 {
			return false
		}
	}
	s := r.current
	return s != nil && s.replicas == r.want && s.available == r.want
}

// noteProgress keeps the condition Progressing, which says whether the rollout goes
// on, is done, or has come no further for too long.
func (r *rollout) noteProgress(before appsv1.DeploymentStatus) {
	c := r.condition(appsv1.DeploymentProgressing)
	switch {
	case !hasDeadline(r.d):
		r.status.Conditions = slices.DeleteFunc(r.status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentProgressing })
		return
	case c != nil && c.Reason == reasonAvailable && r.status.Replicas == r.status.UpdatedReplicas:
		return // the rollout was done before: Pods that are lost since are no rollout
	case r.complete():
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonAvailable, fmt.Sprintf("%s has successfully progressed.", r.subject()))
		return
	case progressed(before, r.status):
		r.touchProgress()
	case c != nil && r.late(c):
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonTimedOut, fmt.Sprintf("%s has timed out progressing.", r.subject()))
	}
	if c = r.condition(appsv1.DeploymentProgressing); c != nil && c.Reason != reasonTimedOut && c.Reason != reasonAvailable {
		r.p.again(r.deadline(c))
	}
}

func (r *rollout) subject() string {
	if r.current == nil {
		return fmt.Sprintf("Deployment %q", r.d.Name)
	}
	return fmt.Sprintf("ReplicaSet %q", r.current.Name)
}

// progressed: more of the new, or less of the old, than in the last pass.
func progressed(before, now appsv1.DeploymentStatus) bool {
	return now.UpdatedReplicas > before.UpdatedReplicas ||
		now.Replicas-now.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		now.ReadyReplicas > before.ReadyReplicas || now.AvailableReplicas > before.AvailableReplicas
}

// touchProgress starts the deadline anew, also when the condition says the same as
// before.
func (r *rollout) touchProgress() {
	r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, fmt.Sprintf("%s is progressing.", r.subject()))
	r.condition(appsv1.DeploymentProgressing).LastUpdateTime = r.p.now
}

func (r *rollout) deadline(c *appsv1.DeploymentCondition) time.Time {
	return c.LastUpdateTime.Add(time.Duration(*r.d.Spec.ProgressDeadlineSeconds) * time.Second)
}

// late: nothing has come further since the deadline began. A rollout that was done
// has none.
func (r *rollout) late(c *appsv1.DeploymentCondition) bool {
	return c.Reason != reasonAvailable && !r.p.in.Now.Before(r.deadline(c))
}

// condition returns the condition of the new status, or nil.
func (r *rollout) condition(kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range r.status.Conditions {
		if r.status.Conditions[i].Type == kind {
			return &r.status.Conditions[i]
		}
	}
	return nil
}

// setCondition sets a condition, unless it has that status and reason already.
func (r *rollout) setCondition(kind appsv1.DeploymentConditionType, is corev1.ConditionStatus, reason, message string) {
	c := r.condition(kind)
	if c == nil {
		r.status.Conditions = append(r.status.Conditions, appsv1.DeploymentCondition{Type: kind})
		c = &r.status.Conditions[len(r.status.Conditions)-1]
	}
	if c.Status == is && c.Reason == reason {
		return
	}
	if c.Status != is {
		c.LastTransitionTime = r.p.now
	}
	c.Status, c.Reason, c.Message, c.LastUpdateTime = is, reason, message, r.p.now
}
