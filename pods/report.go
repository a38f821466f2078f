package pods

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report is what a pause process tells about itself and its containers. It is
// one JSON file, replaced with every change.
type report struct {
	process
	Containers []containerReport `json:"containers"`
}

// containerPhase is how far a container has come.
type containerPhase string

const (
	waiting containerPhase = "waiting"
	running containerPhase = "running"
	exited  containerPhase = "exited"
)

// containerReport is the state of one container.
type containerReport struct {
	Name  string         `json:"name"`
	Phase containerPhase `json:"phase"`
	// Ready: the stand-in listens, or the program has run for a moment and, when
	// it declares TCP ports, listens on them.
	Ready bool `json:"ready"`
	// StandIn: no program of the host, but the built-in server.
	StandIn  bool      `json:"standIn,omitempty"`
	Pid      int       `json:"pid,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	ExitCode int       `json:"exitCode,omitempty"`
	Signal   int       `json:"signal,omitempty"`
	// Reason is one word, Message the sentence, of a container that exited.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// settled: nothing more is to be waited for.
func (c containerReport) settled() bool { return c.Ready || c.Phase == exited }

// failed: it ended, and not as a program that has done its work.
func (c containerReport) failed() bool { return c.Phase == exited && c.Reason != reasonCompleted }

// The reasons of exited containers, as Kubernetes spells them.
const (
	reasonCompleted  = "Completed"
	reasonError      = "Error"
	reasonStartError = "StartError"
	reasonPauseGone  = "PauseProcessGone"
)

// standInImage is what a status shows instead of an image that nobody pulled.
const standInImage = "toyproxy stand-in"

// predicted returns the Pod as it is once it runs. Pure.
func predicted(p *corev1.Pod, addrs, hosts []netip.Addr) *corev1.Pod {
	p = p.DeepCopy()
	setAddrs(&p.Status, addrs, hosts)
	setContainers(p, started(p, nil))
	return p
}

// started returns the containers of a Pod as they are once those have started
// that have not settled.
func started(p *corev1.Pod, now []containerReport) []containerReport {
	out := make([]containerReport, 0, len(p.Spec.Containers))
	for _, c := range p.Spec.Containers {
		next := containerReport{Name: c.Name, Phase: running, StandIn: len(c.Command) == 0}
		if i := slices.IndexFunc(now, func(r containerReport) bool { return r.Name == c.Name }); i >= 0 {
			next = now[i]
		}
		if !next.settled() {
			next.Phase, next.Ready = running, true
		}
		out = append(out, next)
	}
	return out
}

func setAddrs(s *corev1.PodStatus, addrs, hosts []netip.Addr) {
	s.PodIP, s.PodIPs, s.HostIP, s.HostIPs = "", nil, "", nil
	for _, a := range addrs {
		s.PodIP = cmp.Or(s.PodIP, a.String())
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: a.String()})
	}
	for _, a := range hosts {
		s.HostIP = cmp.Or(s.HostIP, a.String())
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: a.String()})
	}
}

// setContainers sets phase, conditions and container statuses. Pure.
func setContainers(p *corev1.Pod, cs []containerReport) {
	ready := len(cs) == len(p.Spec.Containers)
	p.Status.ContainerStatuses = nil
	for _, c := range cs {
		ready = ready && c.Ready
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, containerStatus(p, c))
	}
	p.Status.Phase = phase(p.Spec.RestartPolicy, cs)
	setCondition(&p.Status, corev1.PodScheduled, true)
	setCondition(&p.Status, corev1.PodInitialized, true)
	setCondition(&p.Status, corev1.ContainersReady, ready)
	setCondition(&p.Status, corev1.PodReady, ready)
}

// phase follows the Kubernetes definition: Running while something runs, starts,
// or would be restarted.
func phase(policy corev1.RestartPolicy, cs []containerReport) corev1.PodPhase {
	done, failed := true, false
	for _, c := range cs {
		done = done && c.Phase == exited
		failed = failed || c.failed()
	}
	switch {
	case !done || policy == corev1.RestartPolicyAlways || policy == "":
		return corev1.PodRunning
	case failed:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

func containerStatus(p *corev1.Pod, c containerReport) corev1.ContainerStatus {
	started := c.Phase == running
	s := corev1.ContainerStatus{Name: c.Name, Ready: c.Ready, Started: &started}
	for _, spec := range p.Spec.Containers {
		if spec.Name == c.Name {
			s.Image = spec.Image
		}
	}
	if c.StandIn {
		s.ImageID = standInImage
	}
	switch c.Phase {
	case running:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.Started)}
	case exited:
		s.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: int32(c.ExitCode), Signal: int32(c.Signal), Reason: c.Reason, Message: c.Message,
			StartedAt: metav1.NewTime(c.Started), FinishedAt: metav1.NewTime(c.Finished),
		}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	return s
}

func setCondition(s *corev1.PodStatus, kind corev1.PodConditionType, is bool) {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			s.Conditions[i].Status = status
			return
		}
	}
	s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: status})
}

// gone returns the Pod as it is when its pause process has died: its containers
// have ended with it.
func gone(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	setContainers(p, nil)
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, reasonPauseGone
	p.Status.Message = "the pause process has died; the next sync replaces the Pod"
	return p
}
