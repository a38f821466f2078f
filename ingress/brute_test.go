package ingress

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// The matcher below is written from the text of the API alone, over the objects and
// not over a Config: it looks at every path of every object.

// wanted is a path that has a request, with what decides between several.
type wanted struct {
	host, exact, length int
	weak                bool
	age                 *networkingv1.Ingress
	service             string
}

// oracle returns the Service that has a request. Host is a plain name in lower case;
// path is as sent.
func oracle(objects []*networkingv1.Ingress, host, sent string) string {
	elements, open := elementsOf(sent)
	var all []wanted
	for _, o := range objects {
		for _, rule := range o.Spec.Rules {
			rank := hostRank(rule.Host, host)
			if rank < 0 {
				continue
			}
			if d := o.Spec.DefaultBackend; d != nil {
				all = append(all, wanted{rank, -1, 0, false, o, d.Service.Name})
			}
			for _, p := range rule.HTTP.Paths {
				exact := 0
				want, slash := elementsOf(p.Path)
				match := len(want) <= len(elements) && slices.Equal(want, elements[:min(len(want), len(elements))])
				if *p.PathType == networkingv1.PathTypeExact {
					exact = 1
					match = match && len(want) == len(elements) && slash == open
				}
				if match {
					weak := *p.PathType == networkingv1.PathTypeImplementationSpecific
					all = append(all, wanted{rank, exact, len(p.Path), weak, o, p.Backend.Service.Name})
				}
			}
		}
		if len(o.Spec.Rules) == 0 && o.Spec.DefaultBackend != nil {
			all = append(all, wanted{-1, 0, 0, false, o, o.Spec.DefaultBackend.Service.Name})
		}
	}
	if len(all) == 0 {
		return "404"
	}
	return slices.MinFunc(all, func(a, b wanted) int {
		return cmp.Or(cmp.Compare(b.host, a.host), cmp.Compare(b.exact, a.exact), cmp.Compare(b.length, a.length),
			boolCompare(a.weak, b.weak), a.age.CreationTimestamp.Compare(b.age.CreationTimestamp.Time),
			cmp.Compare(a.age.Name, b.age.Name), cmp.Compare(a.service, b.service))
	}).service
}

// hostRank: 2 for the name itself, 1 for "equal to the suffix (removing the first label)", 0 for no host, -1 for no match.
func hostRank(rule, host string) int {
	_, rest, dots := strings.Cut(host, ".")
	switch {
	case rule == "":
		return 0
	case rule == host:
		return 2
	case dots && rule == "*."+rest && !strings.HasPrefix(host, "."):
		return 1
	}
	return -1
}

// elementsOf splits a path by slashes, without the dots and the slashes that say nothing.
func elementsOf(sent string) (elements []string, open bool) {
	text, err := url.PathUnescape(sent)
	if err != nil {
		panic(err)
	}
	clean := path.Clean(text)
	open = strings.HasSuffix(text, "/") || strings.HasSuffix(text, "/.") || strings.HasSuffix(text, "/..")
	if clean == "/" {
		return nil, true
	}
	return strings.Split(clean[1:], "/"), open
}

var (
	ruleHosts = []string{"", "a.example", "b.example", "*.example", "x.a.example", "*.a.example", "example"}
	words     = []string{"foo", "bar", "foobar", "a", "FOO", "b.c", "x y"}
	kinds     = []string{"E", "P", "P", "I"}
)

// randomObjects returns objects of a few hosts and paths, so that they meet often.
func randomObjects(r *rand.Rand) []*networkingv1.Ingress {
	var out []*networkingv1.Ingress
	for i := range 1 + r.IntN(5) {
		var rules []string
		for range r.IntN(6) {
			host := ruleHosts[r.IntN(len(ruleHosts))]
			rules = append(rules, fmt.Sprintf("-%s %s %s s%d", host, randomPath(r), kinds[r.IntN(len(kinds))], r.IntN(50)))
		}
		o := ing(fmt.Sprintf("o%d", i), r.IntN(3), rules...)
		if r.IntN(3) == 0 || len(rules) == 0 {
			o.Spec.DefaultBackend = backend(fmt.Sprintf("d%d", r.IntN(50)))
		}
		out = append(out, o)
	}
	return out
}

func randomPath(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString("/" + strings.ReplaceAll(words[r.IntN(len(words))], " ", "%20"))
	}
	if b.Len() == 0 || r.IntN(4) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

// randomSent writes a path in one of the ways that mean the same.
func randomSent(r *rand.Rand) string {
	text := randomPath(r)
	for range r.IntN(3) {
		at := 1 + r.IntN(len(text))
		if text[at-1] != '/' {
			continue
		}
		text = text[:at] + []string{"/", "./", "gone/../", "%2e/", "zz/%2E%2e/"}[r.IntN(5)] + text[at:]
	}
	return strings.Replace(text, "oo", "%6f%6F", r.IntN(2))
}

// check compares a router with the oracle, and returns what the oracle says.
func check(t *testing.T, objects []*networkingv1.Ingress, r *Router, host, sent string) string {
	t.Helper()
	want := oracle(objects, host, sent)
	if got := get(t, r, host+sent); got != want {
		t.Errorf("%s%s goes to %s, want %s; objects:", host, sent, got, want)
		for _, o := range objects {
			t.Logf("%s %+v %+v", o.Name, o.Spec.DefaultBackend, o.Spec.Rules)
		}
	}
	return want
}

// TestLookupAgainstOracle compares many requests with the text of the API.
func TestLookupAgainstOracle(t *testing.T) {
	t.Parallel()
	requestHosts := []string{"a.example", "b.example", "c.example", "x.a.example", "y.a.example", "example", "zzz", "a.b.c.example"}
	met := map[string]int{}
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 22))
		objects := randomObjects(r)
		c := compile(objects...).Config
		router := NewRouter(c)
		for range 20 {
			host, sent := requestHosts[r.IntN(len(requestHosts))], randomSent(r)
			met[check(t, objects, router, host, sent)[:1]]++
			checkWalk(t, c, router, host, sent)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, kind := range []string{"s", "d", "4"} {
		if met[kind] < 1000 {
			t.Errorf("only %d requests met a %q: the objects are too few or too many", met[kind], kind)
		}
	}
}

// FuzzLookup takes any host and any path, and compares a router's answer with a walk over
// all routes of its Config, and with the oracle where the path says the same to everyone.
func FuzzLookup(f *testing.F) {
	for i, sent := range []string{"/", "/foo/bar", "//foo/./bar/..", "/foo%2fbar", "/foo/%2e%2e/a", "/..;/foo", "*", "/%", "/é\x00"} {
		f.Add(uint64(i), ruleHosts[i%len(ruleHosts)], sent)
	}
	f.Add(uint64(9), "A.Example.:80", "/FOO")
	f.Add(uint64(9), "[fd00::1]:80", "/foo?x")
	f.Fuzz(func(t *testing.T, seed uint64, host, sent string) {
		r := rand.New(rand.NewPCG(seed, 103))
		objects := randomObjects(r)
		c := compile(objects...).Config
		if _, err := ParsePath(sent); err != nil {
			return
		}
		router := NewRouter(c)
		checkWalk(t, c, router, host, sent)
		if name := NormalizeHost(host); name == host && !strings.ContainsAny(sent, "%?;\\") && strings.HasPrefix(sent, "/") {
			check(t, objects, router, host, sent)
		}
	})
}

// checkWalk compares a router with a walk over all routes of its Config.
func checkWalk(t *testing.T, c Config, router *Router, host, sent string) {
	t.Helper()
	p, err := ParsePath(sent)
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Host: host, Path: p, Method: "GET"}
	found := router.Lookup(80, req).Route
	if walked := walk(c.Ports[0].Listeners[0].Routes, req); found != walked {
		t.Errorf("%q %q: the index finds %v, a walk %v", host, sent, found, walked)
	}
}

// walk returns the first route that matches.
func walk(routes []Route, req Request) *Route {
	for i := range routes {
		r := &routes[i]
		covers := len(r.Hosts) == 0
		for _, h := range r.Hosts {
			covers = covers || h.Covers(NormalizeHost(req.Host))
		}
		if covers && r.Match.Matches(req) {
			return r
		}
	}
	return nil
}
