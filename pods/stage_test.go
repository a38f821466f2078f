package pods

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// stage is a Pod without processes: it does at once what a supervisor wants, on
// a clock of its own, and keeps what was done.
type stage struct {
	t   *testing.T
	sup *supervisor
	pod *corev1.Pod
	now time.Time
	// runs tells how a container's runs go: how long until they end, and with
	// which status. One without an entry runs for ever.
	runs map[string][]play
	// deaf containers do not end by TERM.
	deaf map[string]bool
	// verdicts answer probes, by container and kind.
	verdicts map[string]func(time.Duration) outcome
	// hooks is how long lifecycle handlers take.
	hooks time.Duration
	began time.Time
	due   map[string]happening
	done  []string
	pid   int
}

type play struct {
	lasts  time.Duration
	status int
}

type happening struct {
	at time.Time
	do func()
}

func newStage(t *testing.T, pod *corev1.Pod) *stage {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &stage{t: t, pod: pod, sup: newSupervisor(pod, Backoff{}, began), now: began, began: began,
		runs: map[string][]play{}, deaf: map[string]bool{}, verdicts: map[string]func(time.Duration) outcome{},
		due: map[string]happening{}, pid: 100}
}

// until plays on to a moment, as long after the beginning.
func (s *stage) until(d time.Duration) *stage {
	end := s.began.Add(d)
	for n := 0; ; n++ {
		if n > 10000 {
			s.t.Fatalf("at %s the supervisor does not come to rest", s.now.Sub(s.began))
		}
		for deeds := s.sup.step(s.now); len(deeds) > 0; deeds = s.sup.step(s.now) {
			for _, d := range deeds {
				s.perform(d)
			}
		}
		next := s.sup.next
		first := ""
		for _, name := range slices.Sorted(maps.Keys(s.due)) {
			if h := s.due[name]; next.IsZero() || !h.at.After(next) {
				first, next = name, h.at
			}
		}
		if next.IsZero() || next.After(end) {
			s.now = end
			return s
		}
		s.now = next
		if first != "" {
			h := s.due[first]
			delete(s.due, first)
			h.do()
		}
	}
}

func (s *stage) say(format string, args ...any) {
	s.done = append(s.done, fmt.Sprintf("%gs ", s.now.Sub(s.began).Seconds())+fmt.Sprintf(format, args...))
}

func (s *stage) perform(d deed) {
	switch d.do {
	case doStart:
		s.start(d.unit)
	case doSignal:
		s.say("%s %s", map[unix.Signal]string{unix.SIGTERM: "TERM", unix.SIGKILL: "KILL", unix.SIGQUIT: "QUIT"}[d.signal], d.unit.Name)
		if d.signal == unix.SIGKILL || !s.deaf[d.unit.Name] {
			s.ends(d.unit, 100*time.Millisecond, exit{code: 128 + int(d.signal), signal: int(d.signal), reason: reasonError})
		}
	case doAsk:
		s.askProbe(d)
	case doCall:
		s.say("hook of %s", d.unit.Name)
		s.due[fmt.Sprint("hook ", d.ticket)] = happening{s.now.Add(s.hooks), func() { s.sup.answered(d.ticket, passed, "", s.now) }}
	case doDrop:
		delete(s.due, fmt.Sprint("hook ", d.ticket))
		delete(s.due, fmt.Sprint("probe ", d.ticket))
	case doLook:
		s.sup.opened(d.unit, map[uint16]bool{8080: true})
	}
}

func (s *stage) start(u *unit) {
	s.say("start %s", u.Name)
	s.pid++
	s.sup.started(u, s.pid, s.now)
	s.sup.listens(u, u.runs)
	if plays := s.runs[u.Name]; len(plays) > 0 {
		if len(plays) > 1 {
			s.runs[u.Name] = plays[1:]
		}
		e := exit{reason: reasonCompleted}
		if plays[0].status != 0 {
			e = exit{code: plays[0].status, reason: reasonError}
		}
		s.ends(u, plays[0].lasts, e)
	}
}

// ends has a run end after a while, unless it ends earlier.
func (s *stage) ends(u *unit, after time.Duration, e exit) {
	h := happening{s.now.Add(after), func() { s.sup.exited(u, e, s.now) }}
	if old, ok := s.due["end "+u.Name]; !ok || h.at.Before(old.at) {
		s.due["end "+u.Name] = h
	}
}

// askProbe answers at once; one without a verdict never does.
func (s *stage) askProbe(d deed) {
	kind := startup
	for _, p := range d.unit.probes {
		if p.ticket == d.ticket {
			kind = p.kind
		}
	}
	s.say("%s of %s", kind, d.unit.Name)
	if verdict := s.verdicts[d.unit.Name+" "+kind.String()]; verdict != nil {
		s.sup.answered(d.ticket, verdict(s.now.Sub(s.began)), "told", s.now)
	}
}

// did returns what was done, but for what begins with one of these words.
func (s *stage) did(without ...string) string {
	var out []string
	for _, line := range s.done {
		_, what, _ := strings.Cut(line, " ")
		if !slices.ContainsFunc(without, func(w string) bool { return strings.HasPrefix(what, w) }) {
			out = append(out, line)
		}
	}
	return strings.Join(out, ", ")
}

// status is what others see.
func (s *stage) status() corev1.PodStatus {
	p := s.pod.DeepCopy()
	rep := report{Changed: s.now, Expired: s.sup.expired}
	for _, u := range s.sup.units {
		rep.Containers = append(rep.Containers, u.tell())
	}
	setStatus(p, rep)
	return p.Status
}

// brief is a status in a line.
func (s *stage) brief() string {
	st := s.status()
	out := string(st.Phase)
	for _, c := range st.Conditions {
		if c.Status == corev1.ConditionTrue && c.Type != corev1.PodScheduled {
			out += " " + string(c.Type)
		}
	}
	for _, c := range append(st.InitContainerStatuses, st.ContainerStatuses...) {
		out += "; " + c.Name
		switch {
		case c.State.Running != nil:
			out += " running"
		case c.State.Waiting != nil:
			out += " " + c.State.Waiting.Reason
		case c.State.Terminated != nil:
			out += " " + c.State.Terminated.Reason
		}
		if c.RestartCount > 0 {
			out += fmt.Sprintf(" (%d)", c.RestartCount)
		}
	}
	return out
}

// pod makes a Pod of containers that are named: "i:NAME" is an init container,
// "s:NAME" a sidecar.
func pod(policy corev1.RestartPolicy, names ...string) *corev1.Pod {
	p := program("p")
	p.Spec.RestartPolicy, p.Spec.Containers = policy, nil
	for _, name := range names {
		kind, rest, ok := strings.Cut(name, ":")
		c := corev1.Container{Name: cmp.Or(rest, name), Command: []string{"x"}}
		switch {
		case !ok:
			p.Spec.Containers = append(p.Spec.Containers, c)
		case kind == "s":
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			fallthrough
		default:
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	return p
}
