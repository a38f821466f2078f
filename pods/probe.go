package pods

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// probeKind is what a probe's answer decides.
type probeKind uint8

const (
	// startup: whether the other probes begin; when it fails, the container ends.
	startup probeKind = iota
	// readiness: whether the Pod gets traffic.
	readiness
	// liveness: when it fails, the container ends.
	liveness
)

func (k probeKind) String() string { return [...]string{"startup", "readiness", "liveness"}[k] }

// outcome is one answer of a probe.
type outcome uint8

const (
	passed outcome = iota + 1
	failed
	// unknown: it could not be asked, and counts for nothing.
	unknown
)

// firstWait goes before the second question to one that has just started.
const firstWait = 100 * time.Millisecond

// probe is where one probe of a running container stands.
type probe struct {
	kind probeKind
	spec *corev1.Probe
	// next is when it is asked again by its period. Until it has passed once, it is
	// also asked at soon, after waits that double: who has just started gets ready
	// in a moment, not in a period. Such an extra question finds no second failure.
	next, soon time.Time
	wait       time.Duration
	extra      bool
	everPassed bool
	// ticket names the question that is out, 0: none; deadline is when it has failed.
	ticket   int
	deadline time.Time
	// last was found count times in a row; message says why it is no success, as it
	// was found first and when it was found often enough: what varies from answer
	// to answer is no reason to tell everybody.
	last    outcome
	count   int32
	message string
	// unasked is how often in a row it could not even be asked.
	unasked int32
	// standing is what counts after the thresholds.
	standing bool
}

// begin is for a new run of its container.
func (p *probe) begin(now time.Time) {
	*p = probe{kind: p.kind, spec: p.spec, next: now.Add(seconds(p.spec.InitialDelaySeconds)), standing: p.kind == liveness}
}

// idle: it is not asked any more in this run.
func (p *probe) idle() bool { return p.kind == startup && p.standing }

// due is when it is asked next.
func (p *probe) due() time.Time {
	if !p.soon.IsZero() && p.soon.Before(p.next) {
		return p.soon
	}
	return p.next
}

// ask notes a question.
func (p *probe) ask(ticket int, now time.Time) {
	p.ticket, p.deadline = ticket, now.Add(seconds(atLeast(p.spec.TimeoutSeconds, 1)))
	p.extra, p.soon = p.next.After(now), time.Time{}
	if p.extra {
		return
	}
	// What was missed while the last answer was awaited is not made up for.
	if p.next = p.next.Add(seconds(atLeast(p.spec.PeriodSeconds, 10))); p.next.Before(now) {
		p.next = now
	}
}

// take counts an answer, and tells whether its standing is another one now.
func (p *probe) take(o outcome, message string, now time.Time) (changed bool) {
	p.ticket = 0
	if p.unasked++; o != unknown {
		p.unasked = 0
	}
	p.everPassed = p.everPassed || o == passed
	if p.kind != liveness && !p.everPassed {
		p.wait = min(max(2*p.wait, firstWait), time.Minute)
		p.soon = now.Add(p.wait)
	}
	switch {
	case o == unknown && p.last == 0:
		p.message = message
		return false
	case o == unknown, o == failed && p.last == failed && p.extra:
		return false
	}
	return p.tally(o, message)
}

// tally counts an answer that counts.
func (p *probe) tally(o outcome, message string) (changed bool) {
	if o != p.last {
		p.last, p.count = o, 0
	}
	p.count++
	limit := atLeast(p.spec.SuccessThreshold, 1)
	if o == failed {
		limit = atLeast(p.spec.FailureThreshold, 3)
	}
	if p.count == 1 || p.count == limit {
		p.message = message
	}
	if p.count < limit || p.standing == (o == passed) {
		return false
	}
	p.standing = o == passed
	return true
}

// worthTelling: people want to know of the last answer, a failure. That a program
// is not there at once is no news.
func (p *probe) worthTelling() bool {
	return (p.everPassed || p.kind == liveness) && p.count == 1 || !p.extra && p.count == atLeast(p.spec.FailureThreshold, 3)
}

// gaveUp: it has failed as often as it may.
func (p *probe) gaveUp() bool {
	return p.last == failed && p.count >= atLeast(p.spec.FailureThreshold, 3)
}

// told says what it has found, for people.
func (p *probe) told() string { return fmt.Sprintf("%s probe: %s", p.kind, p.message) }

// hopeless: it has not passed, and there is no reason to wait for it any longer.
func (p *probe) hopeless() bool {
	return p.gaveUp() || p.unasked >= atLeast(p.spec.FailureThreshold, 3)
}

// grace is how long its container has to end when it fails.
func (p *probe) grace(pod time.Duration) time.Duration {
	if s := p.spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return pod
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// atLeast is a number of a manifest, or what stands for one that was left out.
func atLeast(n, otherwise int32) int32 {
	if n < 1 {
		return otherwise
	}
	return n
}
