package ingress

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pathRules() []*networkingv1.Ingress {
	return []*networkingv1.Ingress{
		ing("one", 1, "a.example / P root", "a.example / E home", "a.example /foo/ P foo", "a.example /foo/bar E bar", "a.example /aaa/bbb P ab"),
		ing("two", 2, "a.example /foo/bar P barp"),
	}
}

// TestPathRules has the objects of kubernetes/ingress-nginx#6463, #9405 and #10631.
func TestPathRules(t *testing.T) {
	t.Parallel()
	out := compile(pathRules()...)
	wantProblems(t, out)
	wants(t, NewRouter(out.Config),
		"a.example/", "home", "a.example/?q=1", "home",
		"a.example/foo", "foo", "a.example/foo/", "foo", "a.example/foo/x", "foo",
		"a.example/foobar", "root",
		"a.example/foo/bar", "bar",
		"a.example/foo/bar/", "barp", "a.example/foo/bar/z", "barp",
		"a.example/aaa/bbbccc", "root", "a.example/aaa/bbb/ccc", "ab", "a.example/AAA/bbb", "root",
	)
}

// TestPathTable is the table of the Kubernetes documentation on path types.
func TestPathTable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind, paths, request string
		want                 string
	}{
		{"P", "/", "/any/thing", "0"},
		{"E", "/foo", "/foo", "0"}, {"E", "/foo", "/bar", "404"}, {"E", "/foo", "/foo/", "404"}, {"E", "/foo/", "/foo", "404"},
		{"P", "/foo", "/foo", "0"}, {"P", "/foo", "/foo/", "0"}, {"P", "/foo/", "/foo", "0"}, {"P", "/foo/", "/foo/", "0"},
		{"P", "/aaa/bb", "/aaa/bbb", "404"}, {"P", "/aaa/bbb", "/aaa/bbb", "0"}, {"P", "/aaa/bbb/", "/aaa/bbb", "0"},
		{"P", "/aaa/bbb", "/aaa/bbb/", "0"}, {"P", "/aaa/bbb", "/aaa/bbb/ccc", "0"}, {"P", "/aaa/bbb", "/aaa/bbbxyz", "404"},
		{"P", "/ /aaa", "/aaa/ccc", "1"}, {"P", "/ /aaa /aaa/bbb", "/aaa/bbb", "2"}, {"P", "/ /aaa /aaa/bbb", "/ccc", "0"},
		{"P", "/aaa", "/ccc", "404"},
		{"I", "/foo", "/foo/x", "0"}, {"I", "/foo", "/foox", "404"},
		// "If both paths are present in an Ingress spec, the longest matching path (/foo/) is given priority."
		{"P", "/foo /foo/", "/foo", "1"}, {"P", "/foo/ /foo", "/foo/x", "0"},
	} {
		var rules []string
		for i, path := range strings.Fields(tc.paths) {
			rules = append(rules, fmt.Sprintf("a.example %s %s %d", path, tc.kind, i))
		}
		out := compile(ing("x", 0, rules...))
		r := NewRouter(out.Config)
		if never := strings.Contains(tc.paths, "/foo/") && strings.Contains(tc.paths, " "); never {
			wantProblems(t, out, "path /foo of host a.example belongs to Ingress default/x")
		}
		if got := get(t, r, "a.example"+tc.request); got != tc.want {
			t.Errorf("%s %s: %s goes to %s, want %s", tc.kind, tc.paths, tc.request, got, tc.want)
		}
	}
}

// TestShuffled: neither the order of objects nor that of rules and paths says anything.
func TestShuffled(t *testing.T) {
	t.Parallel()
	objects := append(pathRules(),
		with(ing("canary", 3, "a.example /foo/bar P new"), "canary=true", "canary-weight=20"),
		with(ing("regex", 3, "b.example /x(/|$)(.*) I rx", "b.example /y(.*) I ry"), "rewrite-target=/$2"),
		ing("three", 2, "a.example /foo/bar P late", "*.example / P wild", "- /foo P any", "- /foo P any2"))
	objects[2].Spec.DefaultBackend, objects[4].Spec.DefaultBackend = backend("d1"), backend("d2")
	objects[0].Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.example"}, SecretName: "gone"}}
	want := withoutFields(compile(objects...))
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 22))
		shuffled := make([]*networkingv1.Ingress, len(objects))
		for i, o := range objects {
			shuffled[i] = o.DeepCopy()
			rules := shuffled[i].Spec.Rules
			r.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
			for _, rule := range rules {
				r.Shuffle(len(rule.HTTP.Paths), func(i, j int) { rule.HTTP.Paths[i], rule.HTTP.Paths[j] = rule.HTTP.Paths[j], rule.HTTP.Paths[i] })
			}
		}
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		sameConfig(t, withoutFields(compile(shuffled...)), want)
	}
}

// withoutFields drops the positions within objects, which a shuffle does change.
func withoutFields(out Output) Config {
	for _, port := range out.Config.Ports {
		for _, l := range port.Listeners {
			for i := range l.Routes {
				l.Routes[i].Field = ""
				for j := range l.Routes[i].Split {
					l.Routes[i].Split[j].Field = ""
				}
			}
		}
	}
	return out.Config
}

// TestHosts has the hosts of haproxytech/kubernetes-ingress#161 and linkerd#1553.
func TestHosts(t *testing.T) {
	t.Parallel()
	all := ing("default", 2)
	all.Spec.DefaultBackend = backend("fallback")
	r := NewRouter(compile(ing("a", 1, "A.example / P a", "*.wild.example / P wild", "x.wild.example /x P exact"), all).Config)
	wants(t, r,
		"a.example/", "a", "A.Example/", "a", "a.example:8080/", "a", "a.example./", "a",
		"[fd00::1]:80/", "fallback", "/", "fallback", "a.example:80:80/", "fallback", "b.example/", "fallback",
		// A star is one label, and not none.
		"y.wild.example/", "wild", "Y.WILD.example:80/", "wild", "wild.example/", "fallback", "a.y.wild.example/", "fallback", ".wild.example/", "fallback",
		// The exact host comes first; what it has no path for is the wildcard's.
		"x.wild.example/x", "exact", "x.wild.example/y", "wild",
	)
}

// TestMergedHosts has the case of kubernetes/ingress-nginx#20, #1804 and #8216.
func TestMergedHosts(t *testing.T) {
	t.Parallel()
	old, young := ing("z-old", 1, "a.example /x P old", "a.example /y P y"), ing("a-young", 2, "a.example /x/ P young", "a.example /z P z")
	twin := ing("twin", 2, "a.example /z P twin")
	young.Spec.Rules[0].HTTP.Paths[0].Path = "/x"
	out := compile(young, twin, old)
	wantProblems(t, out,
		"Ingress default/a-young: spec.rules[0].http.paths[0]: path /x of host a.example belongs to Ingress default/z-old (spec.rules[0].http.paths[0]), which is older",
		"Ingress default/twin: spec.rules[0].http.paths[0]: path /z of host a.example belongs to Ingress default/a-young (spec.rules[0].http.paths[1]), which is as old and first by name")
	wants(t, NewRouter(out.Config), "a.example/x", "old", "a.example/y", "y", "a.example/z", "z")
	out = compile(young)
	wantProblems(t, out)
	wants(t, NewRouter(out.Config), "a.example/x", "young", "a.example/y", "404", "a.example/z", "z")
}

// TestDefaultBackends has the case of kubernetes/ingress-nginx#5978.
func TestDefaultBackends(t *testing.T) {
	t.Parallel()
	one, two := ing("one", 1, "a.example /x P a"), ing("two", 2, "b.example / P b")
	one.Spec.DefaultBackend = backend("one-default")
	r := NewRouter(compile(one, two).Config)
	wants(t, r, "zzz/", "404", "a.example/x", "a", "a.example/y", "one-default", "b.example/y", "b", "/", "404")

	class, late := ing("class", 4), ing("late", 5)
	class.Spec.DefaultBackend, late.Spec.DefaultBackend = backend("class-default"), backend("late-default")
	out := compile(late, two, class, one, ing("three", 3, "c.example /c P c"))
	wantProblems(t, out, "Ingress default/late: spec.defaultBackend: the default backend of host * belongs to Ingress default/class")
	wants(t, NewRouter(out.Config),
		"zzz/", "class-default", "a.example/y", "one-default", "c.example/c", "c", "c.example/y", "class-default", "/", "class-default")
}

// TestBadParts: what is wrong is left out and named, the rest is served.
func TestBadParts(t *testing.T) {
	t.Parallel()
	o := ing("x", 1, "a..b /x P a", "*.*.example / P a", "a.example foo P a", "a.example /%zz P a", "a.example /ok P ok", "10.0.0.1:80 / P a")
	o.Spec.Rules[2].HTTP.Paths[2].Backend = networkingv1.IngressBackend{}
	empty := ing("empty", 3, "c.example /x E no", "c.example /y P all")
	empty.Spec.Rules[0].HTTP.Paths[0].Path, empty.Spec.Rules[0].HTTP.Paths[1].Path = "", ""
	rx := with(ing("rx", 2, "b.example /(?!x) I a", "b.example /y(.*) P y"), "use-regex=true")
	out := compile(o, rx, empty)
	wantProblems(t, out,
		"empty: spec.rules[0].http.paths[0].path: a path of type Exact is not empty",
		"rx: spec.rules[0].http.paths[0].path: error parsing regexp",
		"rx: spec.rules[0].http.paths[1].pathType: the path is taken for a regular expression",
		`x: spec.rules[0].host: "a..b" is no host`,
		`x: spec.rules[1].host: "*.*.example" is no host`,
		"x: spec.rules[2].http.paths[0].path: path is ambiguous or malformed: \"foo\" does not begin",
		"x: spec.rules[2].http.paths[1].path: path is ambiguous or malformed",
		"x: spec.rules[2].http.paths[2].backend: only Services",
		`x: spec.rules[3].host: "10.0.0.1:80" is no host`,
	)
	r := NewRouter(out.Config)
	wants(t, r, "c.example/", "all", "b.example/yes", "y", "b.example/x", "404", "a.example/y", "404")
	p, _ := ParsePath("/ok/x")
	if got := r.Lookup(443, Request{Host: "a.example", Path: p}); got.Route == nil || got.Route.Split[0].Backend.Refused == "" {
		t.Errorf("a backend that is no Service is %+v, want it refused", got.Route)
	}
}

func class(name, controller string, age int, isDefault bool) *networkingv1.IngressClass {
	c := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ing("", age).CreationTimestamp}}
	c.Spec.Controller = controller
	if isDefault {
		c.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	}
	return c
}

func TestClasses(t *testing.T) {
	t.Parallel()
	other := ing("other", 1, "n / P s")
	other.Annotations[classAnnotation] = "haproxy"
	none, named, legacy, both := ing("none", 1, "n / P s"), ing("named", 1, "n / P s"), ing("legacy", 1, "n / P s"), ing("both", 1, "n / P s")
	named.Spec.IngressClassName, both.Spec.IngressClassName = new("ours"), new("ours")
	legacy.Annotations[classAnnotation], both.Annotations[classAnnotation] = ClassName, "nginx"
	ours, theirs := class("ours", ControllerName, 1, false), class("nginx", "k8s.io/ingress-nginx", 1, false)
	for _, tc := range []struct {
		name     string
		classes  []*networkingv1.IngressClass
		served   string
		problems []string
	}{
		{"no class at all", nil, "[default/both default/legacy default/named default/none default/other]", nil},
		{"ours", []*networkingv1.IngressClass{ours, theirs}, "[default/both default/legacy default/named]",
			[]string{"none: spec.ingressClassName: names no class and no IngressClass is the default"}},
		{"theirs alone", []*networkingv1.IngressClass{theirs}, "[default/legacy]", []string{
			`both: spec.ingressClassName: there is no IngressClass "ours"`, `named: spec.ingressClassName: there is no IngressClass "ours"`,
			"none: spec.ingressClassName: names no class"}},
		{"ours is the default", []*networkingv1.IngressClass{class("ours", ControllerName, 1, true)},
			"[default/both default/legacy default/named default/none]", nil},
		{"theirs is the newer default", []*networkingv1.IngressClass{class("ours", ControllerName, 1, true), class("nginx", "x", 2, true)},
			"[default/both default/legacy default/named]", nil},
		{"of two as new the first by name", []*networkingv1.IngressClass{class("ours", ControllerName, 1, true), class("z", "x", 1, true)},
			"[default/both default/legacy default/named default/none]", nil},
		{"the name of the class is the annotation's", []*networkingv1.IngressClass{class("ours", ControllerName, 1, true), class(ClassName, "x", 1, false)},
			"[default/both default/named default/none]", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := Compile(Input{Ingresses: []*networkingv1.Ingress{none, named, legacy, both, other}, Classes: tc.classes})
			if got := fmt.Sprint(out.Served); got != tc.served {
				t.Errorf("served %s, want %s", got, tc.served)
			}
			var problems Output
			for _, p := range out.Problems {
				if p.Field == "spec.ingressClassName" {
					problems.Problems = append(problems.Problems, p)
				}
			}
			wantProblems(t, problems, tc.problems...)
		})
	}
}
