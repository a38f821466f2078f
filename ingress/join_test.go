package ingress

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// route makes a route for hosts and a path to a Service.
func route(service, path string, hosts ...Hostname) Route {
	return Route{Hosts: hosts, Match: Match{Path: path}, Split: []Share{{Weight: 1, Backend: Backend{Service: types.NamespacedName{Name: service}}}}}
}

// TestListeners: the first listener that covers the host has the request, as the Gateway API wants it.
func TestListeners(t *testing.T) {
	t.Parallel()
	r := NewRouter(Config{Ports: []Port{{Number: 80, Listeners: []Listener{
		{Hostname: Hostname{Name: "a.example"}, Routes: []Route{route("a", "/a")}},
		{Hostname: Hostname{Name: "*.b.example", AnyDepth: true}, Routes: []Route{route("b", "/", Hostname{Name: "*.b.example", AnyDepth: true})}},
		{Hostname: Hostname{Name: "*.example", AnyDepth: true}, Routes: []Route{
			route("x", "/x", Hostname{Name: "y.example"}, Hostname{Name: "*.z.example", AnyDepth: true}),
			route("one", "/one", Hostname{Name: "*.z.example"}), route("star", "/star")}},
		{Routes: []Route{route("rest", "/")}},
	}}}})
	wants(t, r,
		"a.example/a", "a", "a.example/star", "404", "a.example/", "404",
		"b.example/star", "star", "x.b.example/star", "b", "y.x.b.example/", "b",
		"y.example/x", "x", "y.example/star", "star", "q.example/x", "404", "z.example/x", "404", "b.a.z.example/x", "x", "a.z.example/one", "one", "b.a.z.example/one", "404",
		"zzz/", "rest", "/", "rest", "example/", "rest")
	if f := NewRouter(Config{}).Lookup(80, Request{Host: "a"}); f.Listener != nil || f.Route != nil {
		t.Errorf("nothing finds %+v", f)
	}
}

// TestMatches: routes for one path are told apart by the rest of the request, in their order.
func TestMatches(t *testing.T) {
	t.Parallel()
	add := func(service string, change func(*Match)) Route {
		r := route(service, "/")
		change(&r.Match)
		return r
	}
	re, err := CompilePath("eu|us", false)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRouter(Config{Ports: []Port{{Number: 80, Listeners: []Listener{{Routes: []Route{
		add("post", func(m *Match) { m.Method = "POST" }),
		add("both", func(m *Match) {
			m.Headers, m.Queries = []Pair{{Name: "X-A", Value: "1"}}, []Pair{{Name: "q r", Value: "a&b"}}
		}),
		add("list", func(m *Match) { m.Headers = []Pair{{Name: "X-A", Value: "1,2"}} }),
		add("regex", func(m *Match) { m.Queries = []Pair{{Name: "region", Regex: re}} }),
		add("not", func(m *Match) { m.Cookies = []Pair{{Name: "c", Value: "x", Not: true}} }),
	}}}}}})
	for _, tc := range []struct {
		url     string
		headers []string
		want    string
	}{
		{"h/?q+r=a%26b", []string{"X-A: 1"}, "both"},
		{"h/?q%20r=a%26b&q+r=2", []string{"X-A: 1"}, "both"},
		{"h/?q+r=2&q+r=a%26b", []string{"X-A: 1"}, "not"}, // the first value counts
		{"h/", []string{"X-A: 1", "X-A: 2"}, "list"},
		{"h/?region=eu-1", nil, "regex"},
		{"h/?region=a-eu", nil, "not"},
		{"h/?region=%zz", nil, "not"},
		{"h/", []string{"Cookie: b=1; c=x"}, "404"},
		{"h/", []string{`Cookie: c="x"`}, "404"},
		{"h/", []string{"Cookie: d=x", "Cookie: c=y"}, "not"},
	} {
		if got := get(t, r, tc.url, tc.headers...); got != tc.want {
			t.Errorf("%s with %v goes to %s, want %s", tc.url, tc.headers, got, tc.want)
		}
	}
}

// TestJoin: each Config is served as if it were alone, and the more specific route has what both want.
func TestJoin(t *testing.T) {
	t.Parallel()
	class := ing("class", 1)
	class.Spec.DefaultBackend = backend("class")
	first := compile(ing("i", 1, "a.example / P i-a", "*.example /w P i-wild"), class).Config
	second := Config{Ports: []Port{
		{Number: 80, Listeners: []Listener{
			{Name: "star", Hostname: Hostname{Name: "*.example", AnyDepth: true}, Routes: []Route{route("g-star", "/")}},
			{Name: "any", Routes: []Route{route("g-a", "/deep", Hostname{Name: "a.example"}), route("g-any", "/any")}},
		}},
		{Number: 443, Listeners: []Listener{{Routes: []Route{route("plain", "/")}}}},
		{Number: 8080, Listeners: []Listener{{Routes: []Route{route("g-8080", "/")}}}},
	}}
	joined := Join(first, second)
	wants(t, NewRouter(joined),
		"a.example/", "i-a", "a.example/deep", "i-a", // g-star shadows "any" of its own Config, not of the other
		"b.example/", "g-star", "b.example/w", "i-wild", "x.y.example/w", "g-star",
		"zzz/any", "g-any", "zzz/", "class")
	// A Config without a route for the request leaves it to the other.
	some := compile(ing("i", 1, "a.example /x P i-x")).Config
	wants(t, NewRouter(Join(some, second)), "a.example/x", "i-x", "a.example/y", "g-star", "zzz/any", "g-any", "zzz/", "404")
	var numbers []string
	for _, p := range joined.Ports {
		numbers = append(numbers, fmt.Sprintf("%d/%t/%d", p.Number, p.TLS, len(p.Listeners)))
	}
	if got, want := fmt.Sprint(numbers), "[80/false/3 443/true/1 8080/false/1]"; got != want {
		t.Errorf("ports %s, want %s", got, want)
	}
	if got := Conflicts(first, second); len(got) != 1 || got[0].Number != 443 {
		t.Errorf("conflicts: %+v, want port 443", got)
	}
	sameConfig(t, Join(joined), joined)
	sameConfig(t, Join(first), first)
	for _, l := range second.Ports[0].Listeners {
		if l.Group != 0 {
			t.Error("Join changes what it is given")
		}
	}
}

// TestJoinCertificates: the listener's own first certificate is for those who ask for no name.
func TestJoinCertificates(t *testing.T) {
	t.Parallel()
	cert := func(name string, hosts ...string) Certificate {
		c := Certificate{Secret: types.NamespacedName{Name: name}}
		for _, h := range hosts {
			c.Hosts = append(c.Hosts, Hostname{Name: h})
		}
		return c
	}
	one := Config{Ports: []Port{{Number: 443, TLS: true, Listeners: []Listener{{SelfSigned: true, Certificates: []Certificate{cert("i-wild", "*.example")}}}}}}
	two := Config{Ports: []Port{{Number: 443, TLS: true, Listeners: []Listener{{Certificates: []Certificate{cert("g-first", "x.example"), cert("g-two", "y.example")}}}}}}
	for name, want := range map[string]string{"x.example": "g-first", "y.example": "g-two", "z.example": "i-wild", "": "g-first", "zzz": "g-first"} {
		if got := shown(Join(one, two), name); got != want {
			t.Errorf("%q is shown %s, want %s", name, got, want)
		}
	}
}
