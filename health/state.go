package health

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/dataplane"
)

var _ agent.Waiter = (*State)(nil)

// Probe is which question was asked.
type Probe string

// The questions.
const (
	Healthz Probe = "healthz"
	Livez   Probe = "livez"
)

// Config says how to judge.
type Config struct {
	// Limit is how long a change may wait, passes may fail, and none may come before
	// the node counts as unhealthy; kube-proxy takes twice its sync period.
	Limit time.Duration
	// Now is the clock.
	Now func() time.Time
	// Families are those that the node serves; they are told in the answers.
	Families []dataplane.Family
	// Asked is told of every answer, for those who count; may be nil.
	Asked func(p Probe, code int)
}

// State knows how the passes of a node went, and answers for them. It is safe for
// concurrent use.
type State struct {
	config Config
	// mu guards known, and the limit.
	mu    sync.Mutex
	known Known
}

// New returns the state of a process that has made no pass.
func New(c Config) *State { return &State{config: c} }

// SetLimit changes how long is too long.
func (s *State) SetLimit(limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.Limit = limit
}

// Waiting takes note of a change that waits for its pass.
func (s *State) Waiting(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.Waiting.IsZero() || since.Before(s.known.Waiting) {
		s.known.Waiting = since
	}
}

// Observe takes note of a pass. A change that was noticed while it was under way
// goes on waiting.
func (s *State) Observe(r agent.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = s.known.after(r)
}

// after is what is known after a pass. Pure.
func (k Known) after(r agent.Report) Known {
	end := r.Started.Add(r.Took)
	k.Last, k.Leaving = end, r.Leaving
	// A Pod that cannot be made, or a manifest that cannot be read, is a problem,
	// but not one that load balancers could avoid: the rules are right.
	if r.Err == nil || r.Settled && r.Unrepaired == 0 {
		k.Good, k.Failing, k.Failure, k.Unrepaired = end, time.Time{}, nil, 0
		if !k.Waiting.After(r.Started) {
			k.Waiting = time.Time{}
		}
		return k
	}
	if k.Failing.IsZero() {
		k.Failing = r.Started
	}
	// The passes after it do not find it anew, but do not mend it either.
	k.Failure, k.Unrepaired = r.Err, max(k.Unrepaired, r.Unrepaired)
	return k
}

// Status judges what is known now.
func (s *State) Status() Status {
	status, _, _ := s.judge()
	return status
}

func (s *State) judge() (Status, Known, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Now()
	return Judge(s.known, now, s.config.Limit), s.known, now
}

// Handler answers /healthz and /livez.
func (s *State) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, p := range []Probe{Healthz, Livez} {
		mux.Handle("/"+string(p), s.Answer(p))
	}
	return mux
}

// answer is what kube-proxy answers, with the reasons that it does not know.
type answer struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
	Healthy      bool      `json:"healthy"`
	// Status is told by family, as kube-proxy has a proxier for each.
	Status  map[string]familyStatus `json:"status"`
	Reasons []string                `json:"reasons,omitempty"`
}

type familyStatus struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// Answer answers one question, whatever the path.
func (s *State) Answer(p Probe) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status, known, now := s.judge()
		a := answer{CurrentTime: now, LastUpdated: known.Good, Healthy: status.Alive, Reasons: status.Reasons, Status: map[string]familyStatus{}}
		if p == Healthz {
			a.NodeEligible, a.Healthy = &status.Eligible, status.Healthy()
		} else if status.Alive {
			a.Reasons = nil
		}
		if a.Healthy {
			// Those who compare the two times must not take a quiet node for a
			// dead one; when it was really is told by family.
			a.LastUpdated = now
		}
		for _, f := range s.config.Families {
			a.Status[f.String()] = familyStatus{known.Good, status.Alive}
		}
		code := codeOf(a.Healthy)
		if s.config.Asked != nil {
			s.config.Asked(p, code)
		}
		write(w, code, a)
	})
}

func codeOf(healthy bool) int {
	if healthy {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// write answers with JSON. That the client has gone is nobody's concern.
func write(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}
