package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/dataplane"
)

// clock is a clock that a test sets.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

// asked reads the answer to one question.
func asked(t *testing.T, h http.Handler, path string) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s: %v in %q", path, err, w.Body)
	}
	if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: header %v", path, w.Header())
	}
	return w.Code, body
}

func TestAnswers(t *testing.T) {
	c := &clock{at(0)}
	var counted []string
	s := New(Config{Limit: limit, Now: c.read, Families: []dataplane.Family{dataplane.IPv4, dataplane.IPv6},
		Asked: func(p Probe, code int) { counted = append(counted, fmt.Sprint(p, " ", code)) }})
	codes := func(healthz, livez int) (map[string]any, map[string]any) {
		t.Helper()
		gotHealthz, h := asked(t, s.Handler(), "/healthz")
		gotLivez, l := asked(t, s.Handler(), "/livez")
		if gotHealthz != healthz || gotLivez != livez {
			t.Errorf("/healthz %d, /livez %d, want %d, %d: %v", gotHealthz, gotLivez, healthz, livez, h["reasons"])
		}
		return h, l
	}
	codes(503, 503)
	s.Observe(agent.Report{Started: at(0)})
	c.now = at(3)
	h, l := codes(200, 200)
	want := map[string]any{
		"currentTime": "2026-01-02T03:04:08Z", "lastUpdated": "2026-01-02T03:04:08Z", "nodeEligible": true, "healthy": true,
		"status": map[string]any{
			"IPv4": map[string]any{"lastUpdated": "2026-01-02T03:04:05Z", "healthy": true},
			"IPv6": map[string]any{"lastUpdated": "2026-01-02T03:04:05Z", "healthy": true}},
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("/healthz answers %v, want %v", h, want)
	}
	delete(want, "nodeEligible")
	if !reflect.DeepEqual(l, want) {
		t.Errorf("/livez answers %v, want %v", l, want)
	}
	s.Observe(agent.Report{Started: at(3), Leaving: "taint ToBeDeletedByClusterAutoscaler"})
	if h, l = codes(503, 200); h["nodeEligible"] != false || l["reasons"] != nil {
		t.Errorf("a node that goes: /healthz %v, /livez %v", h, l)
	}
	s.Observe(agent.Report{Started: at(3), Drift: []dataplane.Change{{}}, Unrepaired: 1, Err: errors.New("no")})
	if h, _ = codes(503, 503); h["lastUpdated"] != "2026-01-02T03:04:08Z" || h["reasons"] == nil {
		t.Errorf("drift not repaired: %v", h)
	}
	s.Observe(agent.Report{Started: at(3)})
	s.Waiting(at(3))
	s.Waiting(at(4))
	c.now = at(12)
	codes(200, 200)
	s.Observe(agent.Report{Started: at(2), Took: 11 * time.Second})
	c.now = at(13)
	codes(503, 503)
	s.SetLimit(2 * limit)
	codes(200, 200)
	if len(counted) != 14 || counted[0] != "healthz 503" || counted[3] != "livez 200" {
		t.Errorf("counted %q", counted)
	}
}
