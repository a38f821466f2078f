package pods

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// report is what a pause process tells about itself and its containers. It is
// one JSON file, replaced with every change.
type report struct {
	process
	// Changed is when it was last another one.
	Changed time.Time `json:"changed,omitzero"`
	// Containers are the init containers, then the others, in their order.
	Containers []containerReport `json:"containers"`
	// Expired: the Pod has been active for longer than it may.
	Expired bool `json:"expired,omitempty"`
}

// containerPhase is how far a container has come.
type containerPhase string

const (
	// waiting: to be started, for the first time or again.
	waiting containerPhase = "waiting"
	running containerPhase = "running"
	// exited: for good.
	exited containerPhase = "exited"
)

// containerReport is the state of one container.
type containerReport struct {
	Name  string         `json:"name"`
	Role  role           `json:"role,omitempty"`
	Phase containerPhase `json:"phase"`
	// Begun is what Kubernetes calls started.
	Begun bool `json:"begun,omitempty"`
	Ready bool `json:"ready"`
	// Unready tells what its startup or readiness probe finds wrong, GaveUp that it
	// did so as often as failureThreshold says, or that it is time to go on without.
	Unready string `json:"unready,omitempty"`
	GaveUp  bool   `json:"gaveUp,omitempty"`
	// StandIn: no program of the host, but the built-in server.
	StandIn  bool `json:"standIn,omitempty"`
	Restarts int  `json:"restarts,omitempty"`
	run
	// Last is the run before this one.
	Last *run `json:"last,omitempty"`
}

// run is one run of a container.
type run struct {
	Pid      int       `json:"pid,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	ExitCode int       `json:"exitCode,omitempty"`
	Signal   int       `json:"signal,omitempty"`
	// Reason is one word, Message the sentence, of one that has ended, and of a
	// container that waits.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// why says how a run ended.
func (r run) why() string {
	if r.Message == "" {
		return r.Reason
	}
	return r.Reason + ": " + r.Message
}

// crashing: it keeps ending, and waits to be started again.
func (c containerReport) crashing() bool { return c.Phase == waiting && c.Reason == reasonCrashLoop }

// settled: nothing more is to be waited for.
func (c containerReport) settled() bool {
	return c.Phase == exited || c.crashing() || c.Phase == running && c.Role != initRole && (c.Ready || c.GaveUp)
}

// failed: it ended, now or over and over, and not as a program that has done its
// work.
func (c containerReport) failed() bool {
	return c.Phase == exited && c.Reason != reasonCompleted || c.crashing() && c.Last.Reason != reasonCompleted
}

// end is the run that a container which has ended, or keeps ending, is known by.
func (c containerReport) end() run {
	if c.crashing() {
		return *c.Last
	}
	return c.run
}

// Reasons, as Kubernetes spells them but for that of its own.
const (
	reasonCompleted  = "Completed"
	reasonError      = "Error"
	reasonStartError = "StartError"
	reasonPauseGone  = "PauseProcessGone"
	reasonCrashLoop  = "CrashLoopBackOff"
	reasonUnhealthy  = "Unhealthy"
	reasonDeadline   = "DeadlineExceeded"
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
	out := make([]containerReport, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers))
	add := func(c *corev1.Container, r role) {
		next := containerReport{Name: c.Name, Role: r, Phase: waiting, StandIn: len(c.Command) == 0}
		if i := slices.IndexFunc(now, func(r containerReport) bool { return r.Name == c.Name }); i >= 0 {
			next = now[i]
		}
		switch {
		case next.settled():
		case r == initRole:
			next.Phase, next.Ready, next.Reason = exited, true, reasonCompleted
		default:
			next.Phase, next.Begun, next.Ready = running, true, true
		}
		out = append(out, next)
	}
	for i := range p.Spec.InitContainers {
		add(&p.Spec.InitContainers[i], roleOf(&p.Spec.InitContainers[i], true))
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i], mainRole)
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
