package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// role is what a container is in its Pod.
type role string

const (
	// mainRole is one of spec.containers.
	mainRole role = ""
	// initRole has to end well before the next container starts.
	initRole role = "init"
	// sidecarRole is an init container that keeps running beside the others.
	sidecarRole role = "sidecar"
)

func roleOf(c *corev1.Container, init bool) role {
	switch {
	case !init:
		return mainRole
	case c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways:
		return sidecarRole
	}
	return initRole
}

// unit is one container as its supervisor sees it.
type unit struct {
	// containerReport is what is told of it; Begun, Ready and Unready are only made
	// when it is.
	containerReport
	spec   *corev1.Container
	policy corev1.RestartPolicy
	// runs is how often it was ordered to start.
	runs     int
	patience patience
	// due is when it may be started, of one that waits.
	due time.Time
	// up: a stand-in listens, or a program has settled.
	up bool
	// late: it has run for a while, and is not ready, or not through.
	late bool
	// look is when a program's ports are next looked for.
	look      time.Time
	postStart hook
	probes    []*probe
	// stop is set from the moment it is to end.
	stop *stopping
}

// hook is a lifecycle handler on its way.
type hook struct {
	handler *corev1.LifecycleHandler
	// ticket names the call that is awaited; 0: none.
	ticket int
	// until is when a sleep is over.
	until time.Time
	done  bool
}

// stopping is how far a container has been brought to its end.
type stopping struct {
	// deadline is when KILL is sent.
	deadline time.Time
	preStop  hook
	termed   bool
	killed   bool
}

func newUnit(pod *corev1.Pod, c *corev1.Container, r role) *unit {
	u := &unit{spec: c, policy: restartPolicy(pod, c)}
	u.Name, u.Role, u.Phase, u.StandIn = c.Name, r, waiting, len(c.Command) == 0
	for kind, spec := range map[probeKind]*corev1.Probe{startup: c.StartupProbe, readiness: c.ReadinessProbe, liveness: c.LivenessProbe} {
		if spec != nil {
			u.probes = append(u.probes, &probe{kind: kind, spec: spec})
		}
	}
	slices.SortFunc(u.probes, func(a, b *probe) int { return int(a.kind) - int(b.kind) })
	return u
}

// running tells whether a process of it is there.
func (u *unit) running() bool { return u.Phase == running }

// begun: it runs, its postStart hook is through, and its startup probe has passed.
func (u *unit) begun() bool {
	return u.running() && u.Pid != 0 && u.postStart.done && u.standing(startup, true)
}

// ready is what Kubernetes calls ready. Without a readiness probe it goes beyond
// it: a program that declares TCP ports has to listen first.
func (u *unit) ready() bool {
	if u.Role == initRole {
		return u.Phase == exited && !u.failed()
	}
	return u.begun() && u.standing(readiness, u.up)
}

// standing is what a probe has found, or a value when there is no such probe.
func (u *unit) standing(kind probeKind, none bool) bool {
	for _, p := range u.probes {
		if p.kind == kind {
			return p.standing
		}
	}
	return none
}

// tell returns the report.
func (u *unit) tell() containerReport {
	r := u.containerReport
	r.Begun, r.Ready = u.begun(), u.ready()
	for _, p := range u.probes {
		if u.running() && p.kind != liveness && !p.standing && (p.last == failed || p.unasked > 0) {
			r.Unready, r.GaveUp = p.told(), p.hopeless()
		}
	}
	if u.late && u.running() && !r.Ready {
		r.Unready, r.GaveUp = cmp.Or(r.Unready, u.lateness()), true
	}
	return r
}

// lateness says what is waited for.
func (u *unit) lateness() string {
	what := "readiness probe"
	switch {
	case u.Role == initRole:
		return fmt.Sprintf("it runs for more than %s, and the next container waits for its end", lateAfter)
	case !u.postStart.done:
		what = "postStart hook"
	case !u.standing(startup, true):
		what = "startup probe"
	}
	return fmt.Sprintf("%s after its start its %s had not passed", lateAfter, what)
}

// passes tells whether the container after this one may start.
func (u *unit) passes(initialised bool) bool {
	switch u.Role {
	case initRole:
		return initialised || u.Phase == exited && !u.failed()
	case sidecarRole:
		return initialised || u.begun()
	}
	return !u.running() || u.postStart.done
}

// begin is the order to start it.
func (u *unit) begin(b Backoff, now time.Time) {
	if u.runs > 0 {
		u.Restarts++
		u.patience.restart(b, now)
	}
	u.runs++
	u.Phase, u.run = running, run{Started: now}
	u.up, u.late, u.look, u.stop = false, false, now, nil
	u.postStart = hook{done: true}
	if l := u.spec.Lifecycle; l != nil && l.PostStart != nil {
		u.postStart = hook{handler: l.PostStart}
	}
	for _, p := range u.probes {
		p.begin(now)
	}
}

// end has it end by a deadline, if it runs and is not to end earlier anyway.
func (u *unit) end(deadline time.Time) {
	switch {
	case !u.running():
	case u.stop == nil:
		u.stop = &stopping{deadline: deadline, preStop: hook{done: true}}
		if l := u.spec.Lifecycle; l != nil && l.PreStop != nil {
			u.stop.preStop = hook{handler: l.PreStop}
		}
	case deadline.Before(u.stop.deadline):
		u.stop.deadline = deadline
	}
}

// stopSignal is what asks it to end.
func (u *unit) stopSignal() unix.Signal {
	if l := u.spec.Lifecycle; l != nil && l.StopSignal != nil {
		if n := signalNumber(string(*l.StopSignal)); n != 0 {
			return n
		}
	}
	return unix.SIGTERM
}

// signalNumber is the number of a signal, 0 of a name that there is not. The names
// of real-time signals count from either end: SIGRTMIN+1, SIGRTMAX-1.
func signalNumber(name string) unix.Signal {
	const first, last = 34, 64 // as every C library has them
	for prefix, base := range map[string]int{"SIGRTMIN": first, "SIGRTMAX": last} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if n, err := strconv.Atoi(cmp.Or(rest, "0")); err == nil && base+n >= first && base+n <= last {
				return unix.Signal(base + n)
			}
		}
	}
	return unix.SignalNum(name)
}

// retire makes one that waits to be started again one that has ended: nobody will.
func (u *unit) retire() {
	if u.Phase == waiting && u.Last != nil {
		u.Phase, u.run, u.Last = exited, *u.Last, nil
	}
}
