package ingress

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// What explain says of a request, by the route that has it.
func TestExplain(t *testing.T) {
	web := Backend{Service: types.NamespacedName{Namespace: "default", Name: "web"}, Port: 80}
	route := func(path string, change func(*Route)) Route {
		r := Route{Object: cluster.MakeRef(cluster.Ingress, "default", "i"), Field: "spec.rules[0]", Match: Match{Kind: PathExact, Path: path}}
		change(&r)
		return r
	}
	external := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "old.example"}}
	external.Namespace, external.Name = "default", "web"
	router := NewRouter(Config{Ports: []Port{{Number: 80, Listeners: []Listener{{Name: "http", Routes: []Route{
		route("/alias", func(r *Route) { r.Split = []Share{{Weight: 1, Backend: web}} }),
		route("/none", func(r *Route) {
			r.Split = []Share{{Weight: 1, Backend: Backend{Service: types.NamespacedName{Namespace: "default", Name: "api"}, Port: 80}}}
		}),
		route("/refused", func(r *Route) { r.Split = []Share{{Weight: 1, Backend: Backend{Refused: "no grant"}}} }),
		route("/empty", func(r *Route) { r.Split = []Share{{Backend: web}} }),
		route("/secure", func(r *Route) { r.Settings.RedirectTLS = true }),
		route("/moved", func(r *Route) {
			r.Filters = []Filter{{Kind: RequestHeaders, Set: []Pair{{Name: "X-A", Value: "1"}}, Remove: []string{"X-B"}}, {Kind: Redirect, URL: URLChange{Scheme: "https", Port: 8443, Status: 302}}}
		}),
	}}}}}})
	for path, want := range map[string]string{
		"/alias":   "OK: GET goes to Service default/web, port 80|because Ingress default/i, spec.rules[0]: every host, exact path /alias|100 % Service default/web, port 80: old.example:80, by HTTP",
		"/none":    "503: GET: no backend has endpoints|there is no such Service",
		"/refused": "500: GET: the backend is refused: no grant",
		"/empty":   "503: GET: the rule names no backend with a weight",
		"/secure":  "308: GET: the proxy itself redirects to the same URL with https",
		"/moved":   "302: GET: the proxy itself answers with a redirect|filter: request headers: set X-A: 1; remove X-B|filter: redirect 302 to scheme https, port 8443",
		"/else":    "404: GET: no rule has host a.example with this path, and there is no default backend",
	} {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		q := Question{Router: router, Port: 80, Request: Request{Host: "a.example", Path: p, Method: "GET"}, Services: []*corev1.Service{external}}
		text := q.Explain().Text("GET")
		for part := range strings.SplitSeq(want, "|") {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is not in\n%s", path, part, text)
			}
		}
	}
}
