package ingress

import (
	"testing"
)

// TestWhy: what has a request, and why, as people read it.
func TestWhy(t *testing.T) {
	t.Parallel()
	out := compile(
		ing("web", 1, "a.example / P root", "a.example /foo/ P foo", "a.example /exact E exact", "*.w.example /w P wild"),
		with(ing("rx", 1, "a.example /x(.*) I rx"), "use-regex=true"),
		with(ing("new", 2, "a.example /foo/ P new"), "canary=true", "canary-by-header=x-new", "canary-by-header-pattern=^a", "canary-by-cookie=c"))
	r := NewRouter(out.Config)
	for _, tc := range []struct {
		host, path string
		headers    []string
		want       string
	}{
		{"A.example:80", "/", nil, "Ingress default/web, spec.rules[0].http.paths[0]: host a.example, every path"},
		{"a.example", "/foo", nil, "Ingress default/web, spec.rules[0].http.paths[1]: host a.example, path /foo and below"},
		{"a.example", "/foo", []string{"X-New: abc"}, "Ingress default/web, spec.rules[0].http.paths[1]: host a.example, path /foo and below, header X-New ~ ^a"},
		{"a.example", "/foo", []string{"Cookie: c=never"}, "Ingress default/web, spec.rules[0].http.paths[1]: host a.example, path /foo and below, cookie c: never"},
		{"a.example", "/exact", nil, "Ingress default/web, spec.rules[0].http.paths[2]: host a.example, exact path /exact"},
		{"a.example", "/x1", nil, "Ingress default/rx, spec.rules[0].http.paths[0]: host a.example, regular expression /x(.*)"},
		{"b.w.example", "/w", nil, "Ingress default/web, spec.rules[1].http.paths[0]: host *.w.example, path /w and below"},
		{"b.w.example", "/", nil, "no rule has host b.w.example with this path, and there is no default backend: 404"},
		{"", "/", nil, "no rule has host (none, or malformed) with this path, and there is no default backend: 404"},
	} {
		p, err := ParsePath(tc.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Lookup(80, Request{Host: tc.host, Path: p, Headers: headerMap(tc.headers)}).Why(); got != tc.want {
			t.Errorf("%s%s: %s\nwant %s", tc.host, tc.path, got, tc.want)
		}
	}
	if got, want := r.Lookup(81, Request{Host: "a"}).Why(), "no listener covers host a: 404"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	m := Match{Method: "PUT", Queries: []Pair{{Name: "q", Value: "1", Not: true}}}
	if got, want := m.String(), "every path, method PUT, query not q: 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	both := Route{Hosts: []Hostname{{Name: "a"}, {Name: "b"}}}
	if got, want := both.String(), ", : host a or b, every path"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for p, want := range map[Protocol]string{HTTP1: "HTTP", H2C: "HTTP/2 without TLS", HTTPS: "HTTPS"} {
		if p.String() != want {
			t.Errorf("%s, want %s", p, want)
		}
	}
}
