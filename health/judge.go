package health

import (
	"fmt"
	"time"
)

// Known is what is known of the passes of a node. The zero value is that of a
// process which has made none.
type Known struct {
	// Good is when the last pass that put everything right came to its end, and Last
	// the same of the last one, good or not.
	Good, Last time.Time
	// Waiting is when the oldest change was noticed that no pass has put in force.
	Waiting time.Time
	// Failing is when the first of the failures came that no good pass has followed,
	// and Failure the last one.
	Failing time.Time
	Failure error
	// Unrepaired is how many changes of others the last pass found in the kernel and
	// could not put right.
	Unrepaired int
	// Leaving says why load balancers are to send nothing more; empty: they may.
	Leaving string
}

// Status is a judgement.
type Status struct {
	// Alive: the passes do their work. It is what /livez answers.
	Alive bool
	// Eligible: the node stays.
	Eligible bool
	// Reasons say what is wrong; empty when nothing is.
	Reasons []string
}

// Healthy says whether load balancers are to send anything here. It is what
// /healthz answers.
func (s Status) Healthy() bool { return s.Alive && s.Eligible }

// Judge says how healthy a node is. Limit is how long a change may wait, passes may
// fail, and none may come. Pure.
func Judge(k Known, now time.Time, limit time.Duration) Status {
	s := Status{Eligible: k.Leaving == ""}
	since := func(t time.Time) time.Duration { return now.Sub(t).Round(time.Second) }
	overdue := func(t time.Time) bool { return !t.IsZero() && now.Sub(t) >= limit }
	switch {
	case k.Good.IsZero() && k.Failure != nil:
		s.add("nothing has been programmed yet: %v", k.Failure)
	case k.Good.IsZero():
		s.add("nothing has been programmed yet")
	case k.Unrepaired > 0 && k.Failure != nil:
		s.add("the kernel was changed by others in %d places, and could not be put right: %v", k.Unrepaired, k.Failure)
	case k.Failure != nil && overdue(k.Failing):
		s.add("passes have failed for %s: %v", since(k.Failing), k.Failure)
	}
	if !k.Good.IsZero() && overdue(k.Last) {
		s.add("no pass has come to its end for %s", since(k.Last))
	} else if !k.Good.IsZero() && overdue(k.Waiting) {
		s.add("a change has waited for %s to be put in force", since(k.Waiting))
	}
	s.Alive = len(s.Reasons) == 0
	if !s.Eligible {
		s.Reasons = append(s.Reasons, "the node is about to go: "+k.Leaving)
	}
	return s
}

func (s *Status) add(format string, args ...any) {
	s.Reasons = append(s.Reasons, fmt.Sprintf(format, args...))
}
