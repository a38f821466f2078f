package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// filters gives a route filters.
func filters(list ...ingress.Filter) func(*ingress.Route) {
	return func(r *ingress.Route) { r.Filters = list }
}

// seen is an endpoint that says what it was asked.
func seen(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Old", "old")
	fmt.Fprintf(w, "%s %s a=%q b=%q", r.Host, r.RequestURI, r.Header["X-A"], r.Header["X-B"])
}

func TestFilters(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("web", []string{endpoint(t, seen)})
	prefix := func(r *ingress.Route) { r.Match = ingress.Match{Kind: ingress.PathPrefix, Path: "/old"} }
	l.apply([]ingress.Route{
		route("headers", "web", filters(ingress.Filter{Kind: ingress.RequestHeaders, Set: []ingress.Pair{{Name: "X-A", Value: "set"}},
			Add: []ingress.Pair{{Name: "x-b", Value: "added"}}, Remove: []string{"x-c"}},
			ingress.Filter{Kind: ingress.ResponseHeaders, Set: []ingress.Pair{{Name: "X-New", Value: "new"}}, Remove: []string{"X-Old"}})),
		route("prefix", "web", prefix, filters(ingress.Filter{Kind: ingress.Rewrite, URL: ingress.URLChange{Path: "/new", ReplacePrefix: true, Hostname: "inner.example"}})),
		route("path", "web", filters(ingress.Filter{Kind: ingress.Rewrite, URL: ingress.URLChange{Path: "/whole", HasPath: true}})),
		route("plain", "web"),
	})
	for _, tt := range []struct{ host, path, want string }{
		{"headers", "/", `headers / a=["set"] b=["b" "added"]`},
		{"prefix", "/old/x%2Fy?q=1;2&z=%zz", `inner.example /new/x%2Fy?q=1;2&z=%zz a=["a"] b=["b"]`},
		{"prefix", "/old", `inner.example /new a=["a"] b=["b"]`},
		{"path", "/any?q", `path /whole?q a=["a"] b=["b"]`},
		{"plain", "/a(b)'!*/%C3%A9?x=y%20z", `plain /a(b)'!*/%C3%A9?x=y%20z a=["a"] b=["b"]`},
		{"plain", "/x//y/../z/./", `plain /x/z/ a=["a"] b=["b"]`},
	} {
		resp, body := l.do("GET", tt.host, "/", func(r *http.Request) {
			path, query, _ := strings.Cut(tt.path, "?")
			r.URL.Opaque, r.URL.RawQuery = path, query
			r.Header = http.Header{"X-A": {"a"}, "X-B": {"b"}, "X-C": {"c"}}
		})
		if body != tt.want {
			t.Errorf("%s%s: %q, want %q", tt.host, tt.path, body, tt.want)
		}
		if changed := tt.host == "headers"; changed != (resp.Header.Get("X-New") == "new") || changed == (resp.Header.Get("X-Old") == "old") {
			t.Errorf("%s: headers of the answer %v", tt.host, resp.Header)
		}
	}
}

func TestRedirects(t *testing.T) {
	l := newLab(t, Options{})
	redirect := func(u ingress.URLChange) func(*ingress.Route) {
		return filters(ingress.Filter{Kind: ingress.Redirect, URL: u})
	}
	l.apply([]ingress.Route{
		route("tls.example", "web", func(r *ingress.Route) { r.Settings.RedirectTLS = true }),
		route("host.example", "web", redirect(ingress.URLChange{Hostname: "other.example", Status: 301})),
		route("port.example", "web", redirect(ingress.URLChange{Port: 8080, Status: 302})),
		route("scheme.example", "web", redirect(ingress.URLChange{Scheme: "https", Status: 302})),
		route("path.example", "web", redirect(ingress.URLChange{Path: "/new", HasPath: true, Status: 303})),
	})
	for _, tt := range []struct {
		host, want string
		status     int
	}{
		{"tls.example:80", "https://tls.example/x?q=1", 308},
		{"host.example", "http://other.example/x?q=1", 301},
		{"port.example:9", "http://port.example:8080/x?q=1", 302},
		{"scheme.example", "https://scheme.example/x?q=1", 302},
		{"path.example", "http://path.example/new?q=1", 303},
	} {
		resp, _ := l.do("GET", tt.host, "/x?q=1")
		if got := resp.Header.Get("Location"); resp.StatusCode != tt.status || got != tt.want {
			t.Errorf("%s: %d %q, want %d %q", tt.host, resp.StatusCode, got, tt.status, tt.want)
		}
	}
}

// TestMirror: the other backend gets a copy, also of a body, and nobody waits for it.
func TestMirror(t *testing.T) {
	l := newLab(t, Options{})
	copies := make(chan string, 10)
	wait := make(chan struct{})
	l.serve("copy", []string{endpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		copies <- r.Method + " " + r.Host + r.RequestURI + " " + string(body)
		<-wait
	})})
	defer close(wait)
	l.serve("web", []string{endpoint(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })})
	to := backend("copy")
	l.apply([]ingress.Route{route("", "web", filters(ingress.Filter{Kind: ingress.Mirror, Mirror: &to, MirrorPercent: 100}))})
	for range 3 {
		resp, body := l.do("POST", "a.example", "/x?y", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("text")), 4
		})
		if resp.StatusCode != 200 || body != "text" {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
	}
	for range 3 {
		select {
		case got := <-copies:
			if got != "POST a.example/x?y text" {
				t.Errorf("copy: %q", got)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("no copy")
		}
	}
}

// TestSplit: shares have what their weights say; refused ones answer 500.
func TestSplit(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("a", []string{endpoint(t, says("a"))})
	l.serve("b", []string{endpoint(t, says("b"))})
	refused := backend("c")
	refused.Refused = "no ReferenceGrant of namespace other"
	split := func(shares ...ingress.Share) func(*ingress.Route) {
		return func(r *ingress.Route) { r.Split = shares }
	}
	l.apply([]ingress.Route{
		route("split", "a", split(ingress.Share{Weight: 3, Backend: backend("a")}, ingress.Share{Weight: 1, Backend: backend("b")})),
		route("refused", "c", split(ingress.Share{Weight: 1, Backend: refused})),
		route("empty", "c", split()),
	})
	counts := map[string]int{}
	for range 400 {
		_, body := l.do("GET", "split", "/")
		counts[body]++
	}
	if counts["a"] < 250 || counts["a"] > 350 || counts["a"]+counts["b"] != 400 {
		t.Errorf("shares of 3 to 1: %v", counts)
	}
	for host, status := range map[string]int{"refused": 500, "empty": 503} {
		if resp, body := l.do("GET", host, "/"); resp.StatusCode != status || strings.Contains(body, "ReferenceGrant") {
			t.Errorf("%s: %d %q", host, resp.StatusCode, body)
		}
	}
}
