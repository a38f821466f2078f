package pods

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// minGrace is what a container gets after TERM when its preStop hook, or those
// that had to end before it, have used up the grace period.
const minGrace = 2 * time.Second

// lateAfter is how long one waits for a container that has started to be ready,
// or an init container to be through; after that it is what it is.
const lateAfter = 20 * time.Second

// supervisor decides what becomes of the containers of a Pod, as a kubelet does.
// It is pure: its methods take what has happened and when, step returns what to
// do now, and next tells when to step again though nothing happens.
type supervisor struct {
	backoff Backoff
	grace   time.Duration
	// units are the init containers, then the others.
	units []*unit
	// initialised: all init containers are through.
	initialised bool
	// ending: the Pod is to end. expired: it has been active for too long.
	ending, expired bool
	// expires is when its activeDeadlineSeconds are over; zero: never.
	expires time.Time
	// deadline is when KILL is sent, once the Pod winds up. wound: it does.
	deadline time.Time
	wound    bool
	tickets  int
	next     time.Time
	deeds    []deed
	notes    []note
}

// doing is a kind of deed.
type doing uint8

const (
	// doStart: start a container, and say started or notStarted.
	doStart doing = iota + 1
	// doSignal: send a signal to a container's processes.
	doSignal
	// doAsk: ask a probe, and say answered.
	doAsk
	// doCall: call a lifecycle handler, and say answered.
	doCall
	// doDrop: give up what was asked or called; its answer does not matter any more.
	doDrop
	// doLook: look which ports are open, and say opened.
	doLook
)

// deed is one thing to do. What is asked, called or dropped is named by a ticket.
type deed struct {
	do      doing
	unit    *unit
	signal  unix.Signal
	ticket  int
	probe   *corev1.Probe
	handler *corev1.LifecycleHandler
}

// note tells people what was done to a container.
type note struct {
	container string
	warning   bool
	// reason is one word, as Kubernetes spells it; message a sentence.
	reason, message string
}

// exit is how a container ended.
type exit struct {
	code, signal    int
	reason, message string
}

func newSupervisor(pod *corev1.Pod, b Backoff, now time.Time) *supervisor {
	s := &supervisor{backoff: b.orDefault(), grace: grace(pod)}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		s.units = append(s.units, newUnit(pod, c, roleOf(c, true)))
	}
	for i := range pod.Spec.Containers {
		s.units = append(s.units, newUnit(pod, &pod.Spec.Containers[i], mainRole))
	}
	if d := pod.Spec.ActiveDeadlineSeconds; d != nil {
		s.expires = now.Add(time.Duration(*d) * time.Second)
	}
	return s
}

// step returns what to do now. Its caller says how that went, and steps again
// until there is nothing to do.
func (s *supervisor) step(now time.Time) []deed {
	s.next = time.Time{}
	if s.windsUp(now) {
		s.windUp(now)
	} else {
		s.startNext(now)
	}
	for _, u := range s.units {
		if u.running() && u.Pid != 0 {
			s.settle(u, now)
			s.hook(u, &u.postStart, now)
			s.question(u, now)
			s.stop(u, now)
		}
	}
	out := s.deeds
	s.deeds = nil
	return out
}

// reached tells whether a time has come, and otherwise has the next step come at
// that time at the latest. The zero time never comes.
func (s *supervisor) reached(t, now time.Time) bool {
	if t.IsZero() {
		return false
	}
	if !t.After(now) {
		return true
	}
	if s.next.IsZero() || t.Before(s.next) {
		s.next = t
	}
	return false
}

func (s *supervisor) do(d deed) { s.deeds = append(s.deeds, d) }

func (s *supervisor) note(u *unit, warning bool, reason, format string, args ...any) {
	s.notes = append(s.notes, note{u.Name, warning, reason, fmt.Sprintf(format, args...)})
}

func (s *supervisor) ticket() int {
	s.tickets++
	return s.tickets
}

// end has the Pod end within a grace period; asked again it may only be shorter.
func (s *supervisor) end(now time.Time, grace time.Duration) {
	s.ending = true
	if d := now.Add(grace); s.deadline.IsZero() || d.Before(s.deadline) {
		s.deadline, s.wound = d, false
	}
}

// idle: no container runs.
func (s *supervisor) idle() bool { return !slices.ContainsFunc(s.units, (*unit).running) }

// settle makes programs ready that have run long enough, and those with ports
// that listen on them.
func (s *supervisor) settle(u *unit, now time.Time) {
	if !u.late && !u.ready() {
		u.late = s.reached(u.Started.Add(lateAfter), now)
	}
	if u.up || u.StandIn || u.Role == initRole || u.spec.ReadinessProbe != nil {
		return
	}
	age := now.Sub(u.Started)
	switch ports := tcpPorts(*u.spec); {
	case len(ports) == 0:
		u.up = s.reached(u.Started.Add(settleAfter), now)
	case age >= listenWithin:
		u.up = true
	case s.reached(u.look, now):
		// Often at first, then less so.
		u.look = now.Add(20*time.Millisecond + age/20)
		s.reached(u.look, now)
		s.do(deed{do: doLook, unit: u})
	}
}

// question asks the probes that are due, and gives up those that took too long.
func (s *supervisor) question(u *unit, now time.Time) {
	for _, p := range u.probes {
		switch {
		case p.ticket != 0:
			if s.reached(p.deadline, now) {
				s.do(deed{do: doDrop, ticket: p.ticket})
				s.answer(u, p, failed, fmt.Sprintf("no answer within %s (timeoutSeconds)", seconds(atLeast(p.spec.TimeoutSeconds, 1))), now)
			}
		case p.idle() || p.kind != readiness && u.stop != nil || !u.postStart.done:
		case p.kind != startup && !u.standing(startup, true):
		case s.reached(p.due(), now):
			p.ask(s.ticket(), now)
			s.reached(p.deadline, now)
			s.do(deed{do: doAsk, unit: u, ticket: p.ticket, probe: p.spec})
		}
	}
}

// answer is what became of a question.
func (s *supervisor) answer(u *unit, p *probe, o outcome, message string, now time.Time) {
	asked := p.unasked == 0
	p.take(o, message, now)
	switch {
	case o == unknown && asked:
		s.note(u, true, "ProbeError", "%s", p.told())
	case o == failed && p.worthTelling():
		s.note(u, true, "Unhealthy", "%s", p.told())
	}
	if p.kind != readiness && p.gaveUp() && u.stop == nil {
		s.note(u, false, "Killing", "it is ended: its %s probe failed, %d in a row: %s", p.kind, p.count, p.message)
		u.end(now.Add(p.grace(s.grace)))
	}
}

// hook calls a lifecycle handler that was not called yet.
func (s *supervisor) hook(u *unit, h *hook, now time.Time) {
	switch {
	case h.done || h.ticket != 0:
	case !h.until.IsZero():
		h.done = s.reached(h.until, now)
	case h.handler.Sleep != nil:
		h.until = now.Add(time.Duration(h.handler.Sleep.Seconds) * time.Second)
		h.done = s.reached(h.until, now)
	default:
		h.ticket = s.ticket()
		s.do(deed{do: doCall, unit: u, ticket: h.ticket, handler: h.handler})
	}
}

// stop brings a container to its end: preStop, TERM, KILL.
func (s *supervisor) stop(u *unit, now time.Time) {
	st := u.stop
	if st == nil || st.killed {
		return
	}
	late := s.reached(st.deadline, now)
	if !st.termed {
		if !late {
			s.hook(u, &st.preStop, now)
		}
		if !late && !st.preStop.done {
			return
		}
		if st.preStop.handler != nil {
			st.deadline = later(st.deadline, now.Add(minGrace))
			late = s.reached(st.deadline, now)
		}
		s.dropAll(&st.preStop.ticket)
		st.termed = true
		if !late {
			s.do(deed{do: doSignal, unit: u, signal: u.stopSignal()})
		}
	}
	if late {
		st.killed = true
		s.do(deed{do: doSignal, unit: u, signal: unix.SIGKILL})
	}
}

// dropAll gives up what is awaited.
func (s *supervisor) dropAll(tickets ...*int) {
	for _, t := range tickets {
		if *t != 0 {
			s.do(deed{do: doDrop, ticket: *t})
			*t = 0
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
