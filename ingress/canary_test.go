package ingress

import (
	"fmt"
	"math"
	"testing"
)

// TestCanary: header before cookie before weight, as ingress-nginx documents them.
func TestCanary(t *testing.T) {
	t.Parallel()
	const split = "main=80 new=20"
	for _, tc := range []struct {
		annotations []string
		headers     []string
		want        string
	}{
		{[]string{"canary-weight=20"}, nil, split},
		{[]string{"canary-weight=0"}, nil, "main"},
		{[]string{"canary-weight=100"}, nil, "main=0 new=100"},
		{[]string{"canary-weight=1", "canary-weight-total=1000"}, nil, "main=999 new=1"},
		{[]string{"canary-by-header=x-canary"}, nil, "main"},
		{[]string{"canary-by-header=x-canary"}, []string{"X-Canary: always"}, "new"},
		{[]string{"canary-by-header=x-canary"}, []string{"X-Canary: never"}, "main"},
		{[]string{"canary-by-header=x-canary"}, []string{"X-Canary: Always"}, "main"},
		{[]string{"canary-by-header=x-canary", "canary-weight=20"}, []string{"X-Canary: always"}, "new"},
		{[]string{"canary-by-header=x-canary", "canary-weight=20"}, []string{"X-Canary: never"}, "main"},
		{[]string{"canary-by-header=x-canary", "canary-weight=20"}, []string{"X-Canary: other"}, split},
		{[]string{"canary-by-header=x-canary", "canary-by-header-value=eu", "canary-weight=20"}, []string{"X-Canary: eu"}, "new"},
		{[]string{"canary-by-header=x-canary", "canary-by-header-value=eu", "canary-weight=20"}, []string{"X-Canary: always"}, split},
		{[]string{"canary-by-header=x-canary", "canary-by-header-value=eu", "canary-weight=20"}, []string{"X-Canary: never"}, split},
		{[]string{"canary-by-header=x-canary", "canary-by-header-pattern=^eu-.*"}, []string{"X-Canary: eu-1"}, "new"},
		{[]string{"canary-by-header=x-canary", "canary-by-header-pattern=^eu-.*"}, []string{"X-Canary: us-1"}, "main"},
		// The value counts where there is a pattern too.
		{[]string{"canary-by-header=x-canary", "canary-by-header-value=a", "canary-by-header-pattern=b"}, []string{"X-Canary: b"}, "main"},
		{[]string{"canary-by-cookie=users"}, []string{"Cookie: a=b; users=always"}, "new"},
		{[]string{"canary-by-cookie=users", "canary-weight=20"}, []string{"Cookie: users=never"}, "main"},
		{[]string{"canary-by-cookie=users", "canary-weight=20"}, []string{"Cookie: users=maybe"}, split},
		{[]string{"canary-by-cookie=users", "canary-by-header=x-canary"}, []string{"X-Canary: never", "Cookie: users=always"}, "main"},
		{[]string{"canary-by-cookie=users", "canary-by-header=x-canary"}, []string{"X-Canary: zzz", "Cookie: users=always"}, "new"},
	} {
		new := with(ing("new", 2, "a.example / P new"), append(tc.annotations, "canary=true")...)
		out := compile(ing("main", 1, "a.example / P main", "a.example /x P x"), new)
		wantProblems(t, out)
		if got := get(t, NewRouter(out.Config), "a.example/y", tc.headers...); got != tc.want {
			t.Errorf("%v with %v goes to %s, want %s", tc.annotations, tc.headers, got, tc.want)
		}
		if got := get(t, NewRouter(out.Config), "a.example/x", tc.headers...); got != "x" {
			t.Errorf("%v: a path without a canary goes to %s", tc.annotations, got)
		}
	}
}

// TestCanaryClaims: a canary needs a main object, gives it no rules of its own, and takes only
// from its own namespace.
func TestCanaryClaims(t *testing.T) {
	t.Parallel()
	main := with(ing("main", 2, "a.example / P main"), "proxy-body-size=1k")
	canary := func(name string, age int, rules ...string) Output {
		late := with(ing("late", 9, "a.example / P late"), "canary=true", "canary-weight=50")
		k := with(ing(name, age, rules...), "canary=true", "canary-weight=10", "proxy-body-size=2k")
		return compile(main, k, late)
	}
	// A canary may be older than what it is a canary of.
	out := canary("c", 1, "a.example / P new")
	wantProblems(t, out, "late: spec.rules[0].http.paths[0]: path / of host a.example has another canary, Ingress default/c")
	wants(t, NewRouter(out.Config), "a.example/", "main=90 new=10")
	r := out.Config.Ports[0].Listeners[0].Routes[0]
	if r.Settings.MaxBody != 1024 || r.Object.Name != "main" || r.Split[1].Object.Name != "c" || r.Split[1].Field != "spec.rules[0].http.paths[0]" {
		t.Errorf("a route with a canary is %+v", r)
	}
	out = canary("c", 1, "a.example /other P new", "b.example / P new")
	wantProblems(t, out, "c: spec.rules[0].http.paths[0]: no other Ingress has path /other of host a.example",
		"c: spec.rules[1].http.paths[0]: no other Ingress has path / of host b.example")
	wants(t, NewRouter(out.Config), "a.example/other", "main=50 late=50", "b.example/", "404")

	// What the main object says of its backends, and what shuts it, is the canary's too.
	out = compile(with(ing("main", 1, "a.example / P main"), "auth-url=x", "backend-protocol=GRPC"),
		with(ing("c", 1, "a.example / P new"), "canary=true", "canary-weight=100", "backend-protocol=HTTPS"))
	if b := out.Config.Ports[0].Listeners[0].Routes[0].Split[1].Backend; b.Refused == "" || *b.Protocol != H2C {
		t.Errorf("the canary's backend is %+v", b)
	}
	// It need not repeat the annotations that say what the path means.
	out = compile(with(ing("main", 1, "a.example /x(.*) I main"), "use-regex=true"),
		with(ing("c", 1, "a.example /x(.*) I new"), "canary=true", "canary-weight=100"))
	wantProblems(t, out)
	wants(t, NewRouter(out.Config), "a.example/xyz", "main=0 new=100")

	foreign := with(ing("c", 1, "a.example / P new"), "canary=true", "canary-weight=100")
	foreign.Namespace = "other"
	out = compile(main, foreign)
	wantProblems(t, out, "Ingress other/c: spec.rules[0].http.paths[0]: Ingress default/main is in another namespace")
	wants(t, NewRouter(out.Config), "a.example/", "main")
}

func TestChoose(t *testing.T) {
	t.Parallel()
	split := []Share{{Weight: 0}, {Weight: 1}, {Weight: 3}, {Weight: 0}, {Weight: 6}, {Weight: 0}}
	const n = 100_000
	counts := map[*Share]int{}
	for i := range n {
		counts[Choose(split, float64(i)/n)]++
	}
	for i := range split {
		if got, want := counts[&split[i]], int(split[i].Weight)*n/10; max(got-want, want-got) > 1 {
			t.Errorf("share %d of weight %d has %d of %d", i, split[i].Weight, got, n)
		}
	}
	if got := Choose(split, math.Nextafter(1, 0)); got != &split[4] {
		t.Errorf("the highest number gives %v", got)
	}
	if even := []Share{{Weight: 1}, {Weight: 1}}; Choose(even, 0.5) != &even[1] {
		t.Error("half of two is not the second")
	}
	if Choose(nil, 0) != nil || Choose([]Share{{}, {}}, 0.5) != nil {
		t.Error("no weight gives a share")
	}
	big := []Share{{Weight: math.MaxUint32}, {Weight: math.MaxUint32}}
	if Choose(big, 0.4) != &big[0] || Choose(big, 0.6) != &big[1] {
		t.Error("large weights overflow")
	}
}

// TestAnnotations: those that are read, and that a malformed one is named and changes nothing.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	out := compile(with(ing("x", 1, "a.example / P s"), "proxy-body-size=8m", "proxy-connect-timeout=5", "proxy-read-timeout=3600s",
		"proxy-send-timeout=7", "backend-protocol=GRPC", "affinity=cookie", "session-cookie-name=route", "force-ssl-redirect=true"))
	wantProblems(t, out)
	r := out.Config.Ports[0].Listeners[0].Routes[0]
	const want = "{5s 0s 0s 1h0m0s 7s 8388608 true route}"
	if got := fmt.Sprint(r.Settings); got != want || *r.Split[0].Backend.Protocol != H2C {
		t.Errorf("settings are %v, want %v; %v", got, want, r.Split[0].Backend)
	}
	plain := compile(ing("x", 1, "a.example / P s")).Config
	for _, text := range []string{
		"proxy-body-size=8 mb", "proxy-body-size=-1", "proxy-body-size=m", "proxy-body-size=99999999999g", "proxy-read-timeout=0", "proxy-read-timeout=soon",
		"proxy-connect-timeout=-5", "proxy-send-timeout=1.5", "backend-protocol=FCGI", "affinity=ip", "force-ssl-redirect=yes", "use-regex=2", "ssl-redirect=",
		"canary=maybe", "canary-weight=many", "canary-weight=101", "canary-weight-total=0", "rewrite-target=x",
		"limit-rps=5", // not supported
	} {
		out := compile(with(ing("x", 1, "a.example / P s"), text))
		if got := real(out.Problems); len(got) != 1 {
			t.Errorf("%s: problems %q, want one", text, got)
		}
		sameConfig(t, out.Config, plain)
	}
	for text, want := range map[string]int64{"0": -1, "512": 512, "1K": 1024, "2G": 2 << 30} {
		out := compile(with(ing("x", 1, "a.example / P s"), "proxy-body-size="+text))
		if got := out.Config.Ports[0].Listeners[0].Routes[0].Settings.MaxBody; got != want {
			t.Errorf("proxy-body-size %s is %d, want %d", text, got, want)
		}
	}
}

// TestGuards: what keeps requests out and is not supported shuts the object, rather than open it.
func TestGuards(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"auth-type", "auth-url", "auth-tls-secret"} {
		out := compile(with(ing("x", 1, "a.example / P s"), name+"=x"), ing("y", 1, "b.example / P s"))
		wantProblems(t, out, "x: metadata.annotations[nginx.ingress.kubernetes.io/"+name+"]: is not supported, and without it")
		routes := out.Config.Ports[0].Listeners[0].Routes
		if routes[0].Split[0].Backend.Refused == "" || routes[1].Split[0].Backend.Refused != "" {
			t.Errorf("%s: routes %+v", name, routes)
		}
	}
}

// TestBadCanaries: what cannot be read of a canary is named, and the main object has the requests.
func TestBadCanaries(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		annotations []string
		problems    []string
	}{
		{nil, []string{"no header, cookie or weight says"}},
		{[]string{"canary-by-header=a b", "canary-weight=0"}, []string{`"a b" cannot be the name of a header`}},
		{[]string{"canary-by-cookie=a;b", "canary-weight=0"}, []string{`"a;b" cannot be the name`}},
		{[]string{"canary-by-header=x", "canary-by-header-pattern=(?=a)", "canary-weight=0"}, []string{"is no regular expression (RE2)"}},
		{[]string{"canary-weight=11", "canary-weight-total=10"}, []string{`"11" is no whole number from 0 to 10: 0 stands`}},
	} {
		out := compile(ing("main", 1, "a.example / P main"), with(ing("new", 2, "a.example / P new"), append(tc.annotations, "canary=true")...))
		wantProblems(t, out, tc.problems...)
		if got := get(t, NewRouter(out.Config), "a.example/", "X: always", "Cookie: a=always"); got != "main" {
			t.Errorf("%v: goes to %s", tc.annotations, got)
		}
	}
	out := compile(with(ing("x", 1, "a.example / P s"), "affinity=cookie", "session-cookie-name=a=b"))
	wantProblems(t, out, `"a=b" cannot be the name of a cookie`)
	if got := out.Config.Ports[0].Listeners[0].Routes[0].Settings.CookieAffinity; got != "INGRESSCOOKIE" {
		t.Errorf("the cookie is %q", got)
	}
}

// TestRegex: paths of use-regex and rewrite-target, the longest first, in any case.
func TestRegex(t *testing.T) {
	t.Parallel()
	out := compile(
		with(ing("rx", 1, "a.example /v[0-9]+/x I versions", "a.example /v1/.* I longest1"), "use-regex=true"),
		with(ing("rw", 1, "a.example /app(/|$)(.*) I app"), "rewrite-target=/$2"),
		ing("plain", 1, "a.example / P root", "a.example /v1/x/exact E exact", "a.example /v2/x/longer P longer"))
	wantProblems(t, out)
	wants(t, NewRouter(out.Config),
		"a.example/v7/x", "versions", "a.example/V7/xyz", "versions", "a.example/v1/y", "longest1", "a.example/v1/x", "versions",
		"a.example/v1/x/exact", "exact", "a.example/v2/x/longer/z", "longer", "a.example/in/v7/x", "root",
		"a.example/app", "app", "a.example/app/x", "app", "a.example/apple", "root")
	p, _ := ParsePath("/app/x/y%20z")
	r := NewRouter(out.Config).Lookup(80, Request{Host: "a.example", Path: p}).Route
	if path, _, err := r.Filters[0].URL.Apply(r.Match, p); path != "/x/y%20z" || err != nil {
		t.Errorf("rewritten to %s, %v", path, err)
	}
}
