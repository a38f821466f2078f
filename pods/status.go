package pods

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setContainers sets phase, conditions and container statuses. Pure.
func setContainers(p *corev1.Pod, cs []containerReport) { setStatus(p, report{Containers: cs}) }

// setStatus makes the status of a Pod say what a report does. What others have
// written there stays, and so does the time since when a condition is as it is.
func setStatus(p *corev1.Pod, rep report) {
	s := &p.Status
	s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	for _, c := range rep.Containers {
		if c.Role == mainRole {
			s.ContainerStatuses = append(s.ContainerStatuses, containerStatus(p, c, initialised(rep.Containers)))
		} else {
			s.InitContainerStatuses = append(s.InitContainerStatuses, containerStatus(p, c, true))
		}
	}
	s.Phase = phase(p.Spec.RestartPolicy, rep.Containers)
	if rep.Expired {
		s.Reason, s.Message = reasonDeadline, "the Pod was active for longer than spec.activeDeadlineSeconds"
		if !slices.ContainsFunc(rep.Containers, func(c containerReport) bool { return c.Phase == running }) {
			s.Phase = corev1.PodFailed
		}
	}
	at := metav1.NewTime(rep.Changed)
	setCondition(s, condition{kind: corev1.PodScheduled, is: true}, at)
	setCondition(s, condition{kind: corev1.PodInitialized, is: len(rep.Containers) == 0 || initialised(rep.Containers), reason: "ContainersNotInitialized"}, at)
	ready := readyCondition(p, rep.Containers)
	setCondition(s, ready, at)
	ready.kind = corev1.PodReady
	if gate := closedGate(p); ready.is && gate != "" {
		ready.is, ready.reason, ready.message = false, "ReadinessGatesNotReady", "the condition "+gate+" of spec.readinessGates is not True"
	}
	setCondition(s, ready, at)
}

// initialised: all init containers are through. That shows in those after them
// too: an init container that has begun may have ended since.
func initialised(cs []containerReport) bool {
	for _, c := range cs {
		switch {
		case c.Role == mainRole:
			return true
		case c.Role == initRole && (c.Phase != exited || c.failed()), c.Role == sidecarRole && !c.Begun:
			return slices.ContainsFunc(cs, func(c containerReport) bool {
				return c.Role == mainRole && (c.Phase != waiting || c.Last != nil)
			})
		}
	}
	return true
}

// readyCondition is whether all containers are ready, and which are not.
func readyCondition(p *corev1.Pod, cs []containerReport) condition {
	out := condition{kind: corev1.ContainersReady, is: len(cs) >= len(p.Spec.Containers), reason: "ContainersNotReady"}
	var not []string
	for _, c := range cs {
		if c.Role != initRole && !c.Ready {
			not = append(not, strings.TrimSuffix(c.Name+" ("+c.Unready+")", " ()"))
		}
	}
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		out.is, out.reason = false, "PodCompleted"
	case corev1.PodFailed:
		out.is, out.reason = false, "PodFailed"
	default:
		if len(not) > 0 {
			out.is, out.message = false, "not ready: "+strings.Join(not, ", ")
		}
	}
	return out
}

// closedGate is the first condition of spec.readinessGates that nobody has made
// true.
func closedGate(p *corev1.Pod) string {
	for _, g := range p.Spec.ReadinessGates {
		if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == g.ConditionType && c.Status == corev1.ConditionTrue
		}) {
			return string(g.ConditionType)
		}
	}
	return ""
}

// phase follows the Kubernetes definition: Pending until the init containers are
// through and each container has run, then Running while something runs, starts,
// or would be restarted.
func phase(policy corev1.RestartPolicy, cs []containerReport) corev1.PodPhase {
	switch {
	case slices.ContainsFunc(cs, containerReport.brokeInit):
		return corev1.PodFailed
	case !initialised(cs) || slices.ContainsFunc(cs, containerReport.fresh):
		return corev1.PodPending
	case slices.ContainsFunc(cs, containerReport.busy) || cmp.Or(policy, corev1.RestartPolicyAlways) == corev1.RestartPolicyAlways:
		return corev1.PodRunning
	case slices.ContainsFunc(cs, func(c containerReport) bool { return c.Role == mainRole && c.failed() }):
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// brokeInit: an init container that has failed for good.
func (c containerReport) brokeInit() bool {
	return c.Role == initRole && c.Phase == exited && c.failed()
}

// fresh: a container that has never run.
func (c containerReport) fresh() bool {
	return c.Role == mainRole && c.Phase == waiting && c.Last == nil
}

// busy: it runs, or will run again.
func (c containerReport) busy() bool {
	return c.Phase == running || c.Role == mainRole && c.Phase != exited
}

func containerStatus(p *corev1.Pod, c containerReport, initialised bool) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Ready: c.Ready, Started: &c.Begun, RestartCount: int32(c.Restarts)}
	for _, spec := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if spec.Name == c.Name {
			s.Image = spec.Image
		}
	}
	if c.StandIn {
		s.ImageID = standInImage
	}
	switch {
	case c.Phase == running:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.Started)}
	case c.Phase == exited:
		s.State.Terminated = c.run.terminated()
	case initialised:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: cmp.Or(c.Reason, "ContainerCreating"), Message: c.Message}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: cmp.Or(c.Reason, "PodInitializing"), Message: c.Message}
	}
	if c.Last != nil {
		s.LastTerminationState.Terminated = c.Last.terminated()
	}
	return s
}

func (r run) terminated() *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: int32(r.ExitCode), Signal: int32(r.Signal), Reason: r.Reason, Message: r.Message,
		StartedAt: metav1.NewTime(r.Started), FinishedAt: metav1.NewTime(r.Finished),
	}
}

// condition is what is to be said of a Pod. Reason and message are told when it
// is not so.
type condition struct {
	kind            corev1.PodConditionType
	is              bool
	reason, message string
}

func setCondition(s *corev1.PodStatus, c condition, at metav1.Time) {
	next := corev1.PodCondition{Type: c.kind, Status: corev1.ConditionTrue, LastTransitionTime: at}
	if !c.is {
		next.Status, next.Reason, next.Message = corev1.ConditionFalse, c.reason, c.message
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type != c.kind {
			continue
		}
		if s.Conditions[i].Status == next.Status && !s.Conditions[i].LastTransitionTime.IsZero() {
			next.LastTransitionTime = s.Conditions[i].LastTransitionTime
		}
		s.Conditions[i] = next
		return
	}
	s.Conditions = append(s.Conditions, next)
}

// gone returns the Pod as it is when its pause process has died: its containers
// have ended with it.
func gone(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	setStatus(p, report{})
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, reasonPauseGone
	p.Status.Message = "the pause process has died; the next sync replaces the Pod"
	return p
}
