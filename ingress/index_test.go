package ingress

import (
	"math/rand/v2"
	"testing"
)

// TestIndexAgainstWalk: over routes in any order, of any hosts, kinds and further matches, the index
// finds what a walk from the first to the last does.
func TestIndexAgainstWalk(t *testing.T) {
	t.Parallel()
	requestHosts := []string{"a.example", "x.a.example", "y.x.a.example", "b.example", "example", "", "[fd00::1]"}
	found := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		var routes []Route
		for range 1 + r.IntN(12) {
			routes = append(routes, randomRoute(t, r))
		}
		c := Config{Ports: []Port{{Number: 80, Listeners: []Listener{{Routes: routes}}}}}
		router := NewRouter(c)
		for range 20 {
			p, err := ParsePath(randomSent(r))
			if err != nil {
				t.Fatal(err)
			}
			req := Request{Host: requestHosts[r.IntN(len(requestHosts))], Path: p, Method: []string{"GET", "POST"}[r.IntN(2)]}
			if r.IntN(2) == 0 {
				req.Headers = map[string][]string{"X-A": {"1"}}
			}
			got, want := router.Lookup(80, req), walk(routes, req)
			if got.Route != want {
				t.Fatalf("seed %d: %+v: the index finds %v, a walk %v", seed, req, got.Route, want)
			}
			if want != nil {
				found++
			}
			if want != nil && len(want.Hosts) > 0 && !got.Hostname.Covers(got.Host) {
				t.Fatalf("seed %d: %+v: found by %v", seed, req, got.Hostname)
			}
		}
	}
	if found < 5000 {
		t.Errorf("only %d requests met a route", found)
	}
}

// randomRoute makes a route of few hosts and paths, so that several match.
func randomRoute(t *testing.T, r *rand.Rand) Route {
	t.Helper()
	var out Route
	for range r.IntN(3) {
		name := ruleHosts[1+r.IntN(len(ruleHosts)-1)]
		out.Hosts = append(out.Hosts, Hostname{Name: name, AnyDepth: r.IntN(2) == 0})
	}
	p, err := ParsePath(randomPath(r))
	if err != nil {
		t.Fatal(err)
	}
	out.Match = Match{Kind: PathKind(r.IntN(3)), Path: p.Match}
	if out.Match.Kind == PathRegex {
		out.Match.Path = []string{"/", "/foo", "/[a-b]", "/.*r$"}[r.IntN(4)]
		if out.Match.Regex, err = CompilePath(out.Match.Path, false); err != nil {
			t.Fatal(err)
		}
	}
	if r.IntN(3) == 0 {
		out.Match.Method = "POST"
	}
	if r.IntN(3) == 0 {
		out.Match.Headers = []Pair{{Name: "X-A", Value: "1", Not: r.IntN(2) == 0}}
	}
	return out
}
