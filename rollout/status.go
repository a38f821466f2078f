package rollout

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Progress is how far a rollout is.
type Progress struct {
	// Text is one line for people, without its end.
	Text string
	Done bool
}

// errStrategy is the answer for workloads whose Pods nobody replaces.
var errStrategy = errors.New("rollout status is only available for RollingUpdate strategy type")

// Status tells how far the rollout of a workload is. The error says that it will not
// come to an end, or that there is none to speak of.
func Status(obj metav1.Object) (Progress, error) {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return deploymentStatus(obj)
	case *appsv1.StatefulSet:
		return statefulSetStatus(obj)
	case *appsv1.DaemonSet:
		return daemonSetStatus(obj)
	}
	return Progress{}, fmt.Errorf("%s %q has no rollout", nameOf(obj), obj.GetName())
}

func waiting(format string, args ...any) (Progress, error) {
	return Progress{Text: fmt.Sprintf(format, args...)}, nil
}

func deploymentStatus(d *appsv1.Deployment) (Progress, error) {
	s := &d.Status
	if d.Generation > s.ObservedGeneration {
		return waiting("Waiting for deployment spec update to be observed...")
	}
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
			return Progress{}, fmt.Errorf("deployment %q exceeded its progress deadline", d.Name)
		}
	}
	const finish = "Waiting for deployment %q rollout to finish: "
	switch {
	case d.Spec.Replicas != nil && s.UpdatedReplicas < *d.Spec.Replicas:
		return waiting(finish+"%d out of %d new replicas have been updated...", d.Name, s.UpdatedReplicas, *d.Spec.Replicas)
	case s.Replicas > s.UpdatedReplicas:
		return waiting(finish+"%d old replicas are pending termination...", d.Name, s.Replicas-s.UpdatedReplicas)
	case s.AvailableReplicas < s.UpdatedReplicas:
		return waiting(finish+"%d of %d updated replicas are available...", d.Name, s.AvailableReplicas, s.UpdatedReplicas)
	}
	return Progress{fmt.Sprintf("deployment %q successfully rolled out", d.Name), true}, nil
}

func statefulSetStatus(s *appsv1.StatefulSet) (Progress, error) {
	update := s.Spec.UpdateStrategy
	if update.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		return Progress{}, errStrategy
	}
	if s.Status.ObservedGeneration == 0 || s.Generation > s.Status.ObservedGeneration {
		return waiting("Waiting for statefulset spec update to be observed...")
	}
	replicas := valueOf(s.Spec.Replicas, s.Status.Replicas)
	if s.Status.ReadyReplicas < replicas {
		return waiting("Waiting for %d pods to be ready...", replicas-s.Status.ReadyReplicas)
	}
	if update.RollingUpdate != nil && update.RollingUpdate.Partition != nil {
		if wanted := replicas - *update.RollingUpdate.Partition; s.Status.UpdatedReplicas < wanted {
			return waiting("Waiting for partitioned roll out to finish: %d out of %d new pods have been updated...", s.Status.UpdatedReplicas, wanted)
		}
		return Progress{fmt.Sprintf("partitioned roll out complete: %d new pods have been updated...", s.Status.UpdatedReplicas), true}, nil
	}
	if s.Status.UpdateRevision != s.Status.CurrentRevision {
		return waiting("waiting for statefulset rolling update to complete %d pods at revision %s...", s.Status.UpdatedReplicas, s.Status.UpdateRevision)
	}
	return Progress{fmt.Sprintf("statefulset rolling update complete %d pods at revision %s...", s.Status.CurrentReplicas, s.Status.CurrentRevision), true}, nil
}

func daemonSetStatus(d *appsv1.DaemonSet) (Progress, error) {
	if d.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return Progress{}, errStrategy
	}
	s := &d.Status
	const finish = "Waiting for daemon set %q rollout to finish: "
	switch {
	case d.Generation > s.ObservedGeneration:
		return waiting("Waiting for daemon set spec update to be observed...")
	case s.UpdatedNumberScheduled < s.DesiredNumberScheduled:
		return waiting(finish+"%d out of %d new pods have been updated...", d.Name, s.UpdatedNumberScheduled, s.DesiredNumberScheduled)
	case s.NumberAvailable < s.DesiredNumberScheduled:
		return waiting(finish+"%d of %d updated pods are available...", d.Name, s.NumberAvailable, s.DesiredNumberScheduled)
	}
	return Progress{fmt.Sprintf("daemon set %q successfully rolled out", d.Name), true}, nil
}

func valueOf(p *int32, otherwise int32) int32 {
	if p == nil {
		return otherwise
	}
	return *p
}
