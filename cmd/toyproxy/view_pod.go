package main

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

func podRows(d look) []row {
	var rows []row
	for _, p := range d.Pods {
		s := summarize(p)
		rows = append(rows, row{"pod", p.Namespace, p.Name, p.Labels,
			[]string{p.Name, fmt.Sprintf("%d/%d", s.ready, s.containers), s.status, s.restartText(), age(p.CreationTimestamp)},
			[]string{orNone(p.Status.PodIP), orNone(p.Spec.NodeName), orNone(podNamespaceName(d.Desired, p))}, typed(p, "v1", "Pod")})
	}
	return rows
}

// podSummary is a Pod in one line, as kubectl sums it up.
type podSummary struct {
	// containers counts those that stay: the containers and the sidecars.
	containers, ready int
	status            string
	restarts          int32
	// restarted is when a container ended that was started again; may be zero.
	restarted metav1.Time
}

// restartText is "3 (5m ago)".
func (s podSummary) restartText() string {
	text := strconv.Itoa(int(s.restarts))
	if s.restarts > 0 && !s.restarted.IsZero() {
		text += " (" + duration.HumanDuration(time.Since(s.restarted.Time)) + " ago)"
	}
	return text
}

func summarize(p *corev1.Pod) podSummary {
	s := podSummary{containers: len(p.Spec.Containers), status: phaseOf(p)}
	initializing := s.initContainers(p)
	if !initializing {
		s.mainContainers(p)
	}
	if p.DeletionTimestamp != nil {
		s.status = "Terminating"
	}
	return s
}

// phaseOf is the phase, or what is closest to one for a Pod that nobody has looked at.
func phaseOf(p *corev1.Pod) string {
	switch {
	case p.Status.Reason != "":
		return p.Status.Reason
	case p.Status.Phase == "" && p.Status.PodIP == "":
		return "Pending"
	case p.Status.Phase == "":
		return "Running"
	}
	return string(p.Status.Phase)
}

func (s *podSummary) count(c *corev1.ContainerStatus) {
	s.restarts += c.RestartCount
	if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(s.restarted.Time) {
		s.restarted = t.FinishedAt
	}
}

// initContainers tells whether the Pod is still at its init containers; then the
// status says which.
func (s *podSummary) initContainers(p *corev1.Pod) bool {
	sidecar := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecar[c.Name] = true
			s.containers++
		}
	}
	initializing := false
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		if sidecar[c.Name] {
			s.count(c)
			if c.Ready {
				s.ready++
			}
		}
		ended := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		started := sidecar[c.Name] && c.Started != nil && *c.Started
		if ended || started || initializing {
			continue
		}
		initializing = true
		s.restarts += c.RestartCount
		s.status = "Init:" + initReason(c, fmt.Sprintf("%d/%d", i, len(p.Spec.InitContainers)))
	}
	return initializing
}

// initReason is why an init container is not done; position when it is at work.
func initReason(c *corev1.ContainerStatus, position string) string {
	switch {
	case c.State.Terminated != nil:
		return endReason(c.State.Terminated)
	case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
		return c.State.Waiting.Reason
	}
	return position
}

func endReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// mainContainers takes the status from the first container that has something to say.
func (s *podSummary) mainContainers(p *corev1.Pod) {
	running := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.count(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.status = endReason(c.State.Terminated)
		case c.Ready:
			running = true
		}
		if c.Ready {
			s.ready++
		}
	}
	if s.status == "Completed" && running {
		s.status = "Running"
		if !isReady(p) {
			s.status = "NotReady"
		}
	}
}

// isReady tells whether the condition Ready is true.
func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
