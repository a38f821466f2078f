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
	// Unrepaired is how many changes of others were found in the kernel that no pass
	// has put right.
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
	s := Status{Eligible: k.Leaving == "", Reasons: k.complaints(now, limit)}
	s.Alive = len(s.Reasons) == 0
	if !s.Eligible {
		s.Reasons = append(s.Reasons, "the node is about to go: "+k.Leaving)
	}
	return s
}

// complaints say why the passes do not do their work; none when they do.
func (k Known) complaints(now time.Time, limit time.Duration) []string {
	if k.Good.IsZero() && k.Failure != nil {
		return []string{fmt.Sprintf("nothing has been programmed yet: %v", k.Failure)}
	}
	if k.Good.IsZero() {
		return []string{"nothing has been programmed yet"}
	}
	var out []string
	if k.Unrepaired > 0 {
		out = append(out, fmt.Sprintf("the kernel was changed by others in %d places, and could not be put right: %v", k.Unrepaired, k.Failure))
	} else if since, long := overdue(k.Failing, now, limit); long {
		out = append(out, fmt.Sprintf("passes have failed for %s: %v", since, k.Failure))
	}
	if since, long := overdue(k.Last, now, limit); long {
		out = append(out, fmt.Sprintf("no pass has come to its end for %s", since))
	} else if since, long := overdue(k.Waiting, now, limit); long {
		out = append(out, fmt.Sprintf("a change has waited for %s to be put in force", since))
	}
	return out
}

// overdue tells how long ago something was, and whether that is too long. What never
// was is not.
func overdue(t, now time.Time, limit time.Duration) (since time.Duration, long bool) {
	since = now.Sub(t)
	return since.Round(time.Second), !t.IsZero() && since >= limit
}
