package pods

import (
	"slices"
	"time"
)

// startNext starts the containers whose turn has come: each when those before it
// are through, until all init containers were; after that only their restarts
// are left to wait for.
func (s *supervisor) startNext(now time.Time) {
	for _, u := range s.units {
		if u.Role == mainRole {
			s.initialised = true
		}
		if u.Phase == waiting && (u.due.IsZero() || s.reached(u.due, now)) {
			u.begin(s.backoff, now)
			s.do(deed{do: doStart, unit: u})
		}
		if !u.passes(s.initialised) {
			return
		}
	}
}

// over: the containers of the Pod have done what they were for, or an init
// container has failed for good.
func (s *supervisor) over() bool {
	if slices.ContainsFunc(s.units, func(u *unit) bool { return u.brokeInit() }) {
		return true
	}
	return !slices.ContainsFunc(s.units, func(u *unit) bool { return u.Role == mainRole && u.Phase != exited })
}

// windsUp tells whether the Pod is to end, or has ended but for its sidecars.
func (s *supervisor) windsUp(now time.Time) bool {
	if !s.ending && !s.expired && s.reached(s.expires, now) {
		s.expired, s.deadline = true, now.Add(s.grace)
	}
	if s.ending || s.expired {
		return true
	}
	if s.over() {
		if s.deadline.IsZero() {
			s.deadline = now.Add(s.grace)
		}
		return true
	}
	return false
}

// windUp ends the containers, all at once, and after them the sidecars, the last
// first. When the grace period is over, those that are left end together.
func (s *supervisor) windUp(now time.Time) {
	late := s.reached(s.deadline, now)
	for _, u := range s.units {
		u.retire()
		if u.Role != sidecarRole && !s.wound {
			u.end(s.deadline)
		}
	}
	s.wound = true
	busy := slices.ContainsFunc(s.units, func(u *unit) bool { return u.Role != sidecarRole && u.running() })
	for _, u := range slices.Backward(s.units) {
		if u.Role != sidecarRole || !u.running() {
			continue
		}
		switch {
		case u.stop != nil:
			u.end(s.deadline.Add(minGrace))
		case late:
			u.end(now.Add(minGrace))
		case !busy:
			u.end(s.deadline)
		}
		busy = true
	}
}
