package pods

import (
	"fmt"
	"slices"
	"time"
)

// What has happened, for the supervisor. What is told of an earlier run of a
// container, or of a question that was dropped, changes nothing.

// started: a container that was to start has a process.
func (s *supervisor) started(u *unit, pid int, now time.Time) {
	u.Pid, u.Started = pid, now
	s.note(u, false, "Started", "it runs")
}

// notStarted: there is no process.
func (s *supervisor) notStarted(u *unit, err error, now time.Time) {
	s.exited(u, exit{code: 128, reason: startReason(err), message: err.Error()}, now)
}

// listens: a stand-in listens on its ports.
func (s *supervisor) listens(u *unit, runs int) {
	if u.running() && u.runs == runs {
		u.up = true
	}
}

// opened: these TCP ports are open in the Pod.
func (s *supervisor) opened(u *unit, open map[uint16]bool) {
	if u.running() && !slices.ContainsFunc(tcpPorts(*u.spec), func(port uint16) bool { return !open[port] }) {
		u.up = true
	}
}

// answered: a probe was answered, or a hook is through.
func (s *supervisor) answered(ticket int, o outcome, message string, now time.Time) {
	for _, u := range s.units {
		for _, p := range u.probes {
			if p.ticket == ticket {
				s.answer(u, p, o, message, now)
				return
			}
		}
		if u.postStart.ticket == ticket {
			s.hooked(u, &u.postStart, "postStart", o, message)
			if o != passed {
				u.end(now.Add(s.grace))
			}
			return
		}
		if u.stop != nil && u.stop.preStop.ticket == ticket {
			s.hooked(u, &u.stop.preStop, "preStop", o, message)
			return
		}
	}
}

func (s *supervisor) hooked(u *unit, h *hook, name string, o outcome, message string) {
	h.ticket, h.done = 0, true
	if o != passed {
		reason := map[string]string{"postStart": "FailedPostStartHook", "preStop": "FailedPreStopHook"}[name]
		s.note(u, true, reason, "%s hook: %s", name, message)
	}
}

// exited: the process of a container has ended, or could not be started.
func (s *supervisor) exited(u *unit, e exit, now time.Time) {
	s.forget(u)
	r := u.run
	r.Finished, r.ExitCode, r.Signal, r.Reason, r.Message = now, e.code, e.signal, e.reason, e.message
	u.stop = nil
	if s.ending || s.expired || s.over() || !u.again(e.code) {
		u.Phase, u.run = exited, r
		return
	}
	u.Phase, u.run, u.Last = waiting, run{}, &r
	wait := u.patience.after(s.backoff, now)
	u.due = now.Add(wait)
	if wait > 0 {
		u.Reason, u.Message = reasonCrashLoop, fmt.Sprintf("waits %s before it is started again", wait)
		s.note(u, true, "BackOff", "it ended (%s) and waits %s before it is started again", r.why(), wait)
	}
}

// forget gives up all that is awaited of a container.
func (s *supervisor) forget(u *unit) {
	s.dropAll(&u.postStart.ticket)
	if u.stop != nil {
		s.dropAll(&u.stop.preStop.ticket)
	}
	for _, p := range u.probes {
		s.dropAll(&p.ticket)
	}
}
