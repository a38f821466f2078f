package controller

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
)

// ErrDeadline: a rollout has come no further for progressDeadlineSeconds.
var ErrDeadline = errors.New("exceeded its progress deadline")

// DeploymentProgress says how far the rollout of a Deployment is, in kubectl's words,
// and whether it is done. The error satisfies errors.Is(err, ErrDeadline).
func DeploymentProgress(d *appsv1.Deployment) (message string, done bool, err error) {
	s := d.Status
	want := orOne(d.Spec.Replicas)
	if d.Generation > s.ObservedGeneration {
		return "Waiting for deployment spec update to be observed...", false, nil
	}
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == reasonTimedOut {
			return "", false, fmt.Errorf("deployment %q %w", d.Name, ErrDeadline)
		}
	}
	const waiting = "Waiting for deployment %q rollout to finish: "
	switch {
	case s.UpdatedReplicas < want:
		return fmt.Sprintf(waiting+"%d out of %d new replicas have been updated...", d.Name, s.UpdatedReplicas, want), false, nil
	case s.Replicas > s.UpdatedReplicas:
		return fmt.Sprintf(waiting+"%d old replicas are pending termination...", d.Name, s.Replicas-s.UpdatedReplicas), false, nil
	case s.AvailableReplicas < s.UpdatedReplicas:
		return fmt.Sprintf(waiting+"%d of %d updated replicas are available...", d.Name, s.AvailableReplicas, s.UpdatedReplicas), false, nil
	}
	return fmt.Sprintf("deployment %q successfully rolled out", d.Name), true, nil
}

// StatefulSetProgress says how far the rollout of a StatefulSet is, and whether it is
// done: with a partition, when the part above it is.
func StatefulSetProgress(s *appsv1.StatefulSet) (message string, done bool, err error) {
	want, st := orOne(s.Spec.Replicas), s.Status
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return "", false, errors.New("rollout status is there for strategy RollingUpdate; with OnDelete nothing rolls out by itself")
	}
	if s.Generation > st.ObservedGeneration {
		return "Waiting for statefulset spec update to be observed...", false, nil
	}
	if st.ReadyReplicas < want {
		return fmt.Sprintf("Waiting for %d pods to be ready...", want-st.ReadyReplicas), false, nil
	}
	if ru := s.Spec.UpdateStrategy.RollingUpdate; ru != nil && ru.Partition != nil && *ru.Partition > 0 {
		if above := max(0, want-*ru.Partition); st.UpdatedReplicas < above {
			return fmt.Sprintf("Waiting for partitioned roll out to finish: %d out of %d new pods have been updated...", st.UpdatedReplicas, above), false, nil
		}
		return fmt.Sprintf("partitioned roll out complete: %d new pods have been updated...", st.UpdatedReplicas), true, nil
	}
	if st.UpdateRevision != st.CurrentRevision {
		return fmt.Sprintf("waiting for statefulset rolling update to complete %d pods at revision %s...", st.UpdatedReplicas, st.UpdateRevision), false, nil
	}
	return fmt.Sprintf("statefulset rolling update complete %d pods at revision %s...", st.CurrentReplicas, st.CurrentRevision), true, nil
}

// DaemonSetProgress says how far the rollout of a DaemonSet is, and whether it is done.
func DaemonSetProgress(d *appsv1.DaemonSet) (message string, done bool, err error) {
	s := d.Status
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		return "", false, errors.New("rollout status is there for strategy RollingUpdate; with OnDelete nothing rolls out by itself")
	}
	if d.Generation > s.ObservedGeneration {
		return "Waiting for daemon set spec update to be observed...", false, nil
	}
	const waiting = "Waiting for daemon set %q rollout to finish: "
	switch {
	case s.UpdatedNumberScheduled < s.DesiredNumberScheduled:
		return fmt.Sprintf(waiting+"%d out of %d new pods have been updated...", d.Name, s.UpdatedNumberScheduled, s.DesiredNumberScheduled), false, nil
	case s.NumberAvailable < s.DesiredNumberScheduled:
		return fmt.Sprintf(waiting+"%d of %d updated pods are available...", d.Name, s.NumberAvailable, s.DesiredNumberScheduled), false, nil
	}
	return fmt.Sprintf("daemon set %q successfully rolled out", d.Name), true, nil
}
