package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// TestRandomRoutes requires that the Config of random objects sends random requests where
// a matcher sends them that is written from the text of the API alone, and knows no order
// of routes, no index, and no intersection of hostnames.
func TestRandomRoutes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := randomWorld(rt)
		router := ingress.NewRouter(Compile(Input{Objects: w, Addresses: []string{"192.0.2.1"}}).Config)
		for range 20 {
			q := randomRequest(rt)
			path, err := ingress.ParsePath(q.path)
			if err != nil {
				rt.Fatal(err)
			}
			got := "404"
			found := router.Lookup(q.port, ingress.Request{
				Method: q.method, Host: q.host, Path: path, Headers: q.headers, Query: q.query.Encode(),
			})
			if found.Route != nil {
				got = found.Route.Split[0].Backend.Service.Name
			}
			if want := brute(w, q); got != want {
				rt.Fatalf("%+v: got %s, want %s", q, got, want)
			}
		}
	})
}

// asked is a request.
type asked struct {
	port         uint16
	method, host string
	path         string
	headers      http.Header
	query        url.Values
}

func randomRequest(rt *rapid.T) asked {
	q := asked{
		port:   rapid.SampledFrom([]uint16{80, 81}).Draw(rt, "port"),
		method: rapid.SampledFrom([]string{"GET", "PUT"}).Draw(rt, "method"),
		host:   rapid.SampledFrom([]string{"x.test", "a.x.test", "b.x.test", "c.b.x.test", "test", "y.test"}).Draw(rt, "host"),
		path:   rapid.SampledFrom([]string{"/", "/a", "/a/", "/a/b", "/ab", "/a/b/c"}).Draw(rt, "path"),
	}
	q.headers, q.query = http.Header{}, url.Values{}
	for _, name := range []string{"One", "Two"} {
		if value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, name); value != "" {
			q.headers.Set(name, value)
		}
		if value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "?"+name); value != "" {
			q.query.Set(name, value)
		}
	}
	return q
}

func randomWorld(rt *rapid.T) cluster.Objects {
	hostnames := []gatewayv1.Hostname{"x.test", "a.x.test", "*.x.test", "*.b.x.test", "*.test"}
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "gw"}, Spec: gatewayv1.GatewaySpec{GatewayClassName: "c"}}
	for _, port := range []gatewayv1.PortNumber{80, 81} {
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(append(hostnames, "")), 1, 3, rapid.ID).Draw(rt, "listeners") {
			l := gatewayv1.Listener{Name: gatewayv1.SectionName(fmt.Sprint(port, name)), Port: port, Protocol: gatewayv1.HTTPProtocolType}
			if name != "" {
				l.Hostname = &name
			}
			gw.Spec.Listeners = append(gw.Spec.Listeners, l)
		}
	}
	out := cluster.Objects{
		GatewayClasses: []*gatewayv1.GatewayClass{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: ControllerName}}},
		Gateways:       []*gatewayv1.Gateway{gw},
	}
	for i := range rapid.IntRange(1, 4).Draw(rt, "routes") {
		r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
			Name: string(rune('a' + i)), CreationTimestamp: at(time.Duration(rapid.IntRange(0, 1).Draw(rt, "age")) * time.Hour),
		}}
		ref := gatewayv1.ParentReference{Name: "gw"}
		if rapid.Bool().Draw(rt, "section") {
			ref.SectionName = new(rapid.SampledFrom(gw.Spec.Listeners).Draw(rt, "parent").Name)
		}
		r.Spec.ParentRefs = []gatewayv1.ParentReference{ref}
		r.Spec.Hostnames = rapid.SliceOfNDistinct(rapid.SampledFrom(hostnames), 0, 2, rapid.ID).Draw(rt, "hostnames")
		for j := range rapid.IntRange(1, 3).Draw(rt, "rules") {
			name := fmt.Sprintf("%s-%d", r.Name, j)
			rule := gatewayv1.HTTPRouteRule{Matches: rapid.SliceOfN(rapid.Custom(randomMatch), 0, 2).Draw(rt, "matches")}
			rule.BackendRefs = []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
				BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(name), Port: new(gatewayv1.PortNumber(80))},
			}}}
			r.Spec.Rules = append(r.Spec.Rules, rule)
			out.Services = append(out.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
		}
		out.HTTPRoutes = append(out.HTTPRoutes, r)
	}
	return out
}

func randomMatch(rt *rapid.T) gatewayv1.HTTPRouteMatch {
	var m gatewayv1.HTTPRouteMatch
	if rapid.Bool().Draw(rt, "path?") {
		m.Path = &gatewayv1.HTTPPathMatch{
			Type:  new(rapid.SampledFrom([]gatewayv1.PathMatchType{gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix}).Draw(rt, "type")),
			Value: new(rapid.SampledFrom([]string{"/", "/a", "/a/", "/a/b"}).Draw(rt, "value")),
		}
	}
	if rapid.Bool().Draw(rt, "method?") {
		m.Method = new(rapid.SampledFrom([]gatewayv1.HTTPMethod{"GET", "PUT"}).Draw(rt, "method"))
	}
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"one", "One", "two"}), 0, 2)
	values := rapid.SampledFrom([]string{"1", "2"})
	for _, name := range names.Draw(rt, "headers") {
		m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{Name: gatewayv1.HTTPHeaderName(name), Value: values.Draw(rt, "header")})
	}
	for _, name := range names.Draw(rt, "queries") {
		m.QueryParams = append(m.QueryParams, gatewayv1.HTTPQueryParamMatch{Name: gatewayv1.HTTPHeaderName(name), Value: values.Draw(rt, "query")})
	}
	return m
}

// brute returns the name of the backend that a request goes to, or 404.
func brute(w cluster.Objects, q asked) string {
	l := bruteListener(w.Gateways[0], q)
	if l == nil {
		return "404"
	}
	best, bestRank := "404", []int(nil)
	for i, r := range w.HTTPRoutes {
		section := r.Spec.ParentRefs[0].SectionName
		if section != nil && *section != l.Name {
			continue
		}
		for j, rule := range r.Spec.Rules {
			matches := rule.Matches
			if len(matches) == 0 {
				matches = []gatewayv1.HTTPRouteMatch{{}}
			}
			for k, m := range matches {
				host := bruteHost(r.Spec.Hostnames, l, q.host)
				rank, ok := bruteMatch(m, q)
				if !ok || host == nil {
					continue
				}
				rank = slices.Concat(host, rank, []int{-int(r.CreationTimestamp.Unix()), -i, -j, -k})
				if bestRank == nil || slices.Compare(rank, bestRank) > 0 {
					best, bestRank = string(rule.BackendRefs[0].Name), rank
				}
			}
		}
	}
	return best
}

// bruteListener is the listener of a request: that whose hostname matches best.
func bruteListener(gw *gatewayv1.Gateway, q asked) *gatewayv1.Listener {
	var best *gatewayv1.Listener
	for i := range gw.Spec.Listeners {
		l := &gw.Spec.Listeners[i]
		if uint16(l.Port) != q.port || l.Hostname != nil && !bruteCovers(string(*l.Hostname), q.host) {
			continue
		}
		if best == nil || slices.Compare(bruteSpecific(l.Hostname), bruteSpecific(best.Hostname)) > 0 {
			best = l
		}
	}
	return best
}

func bruteCovers(name, host string) bool {
	if suffix, ok := strings.CutPrefix(name, "*"); ok {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return name == host
}

// bruteSpecific counts the characters of a name without a wildcard, then of any name.
func bruteSpecific(name *gatewayv1.Hostname) []int {
	switch {
	case name == nil:
		return []int{0, 0}
	case strings.HasPrefix(string(*name), "*"):
		return []int{0, len(*name)}
	}
	return []int{len(*name), len(*name)}
}

// bruteHost returns how well a host is matched by a route at a listener that has
// it, or nil.
func bruteHost(hostnames []gatewayv1.Hostname, l *gatewayv1.Listener, host string) []int {
	if len(hostnames) == 0 {
		return bruteSpecific(l.Hostname)
	}
	var best []int
	for _, name := range hostnames {
		if !bruteCovers(string(name), host) {
			continue
		}
		// The name that matches is the one both have in common: the longer.
		both := bruteSpecific(&name)
		if at := bruteSpecific(l.Hostname); slices.Compare(at, both) > 0 {
			both = at
		}
		if best == nil || slices.Compare(both, best) > 0 {
			best = both
		}
	}
	return best
}

// bruteMatch says whether a match has a request, and its rank by the API's list: exact path,
// characters of the prefix, method, number of headers, number of queries.
func bruteMatch(m gatewayv1.HTTPRouteMatch, q asked) ([]int, bool) {
	rank := make([]int, 5)
	if m.Path != nil {
		value := *m.Path.Value
		if *m.Path.Type == gatewayv1.PathMatchExact {
			rank[0] = 1
			if q.path != value {
				return nil, false
			}
		} else {
			value = strings.TrimSuffix(value, "/")
			rank[1] = len(value)
			if q.path != value && !strings.HasPrefix(q.path, value+"/") {
				return nil, false
			}
		}
	}
	if m.Method != nil {
		rank[2] = 1
		if string(*m.Method) != q.method {
			return nil, false
		}
	}
	seen := map[string]bool{}
	for _, h := range m.Headers {
		name := http.CanonicalHeaderKey(string(h.Name))
		if !seen[name] && q.headers.Get(name) != h.Value {
			return nil, false
		}
		seen[name] = true
	}
	rank[3] = len(seen)
	asked := map[string]bool{}
	for _, p := range m.QueryParams {
		name := string(p.Name)
		if !asked[name] && (!q.query.Has(name) || cmp.Compare(q.query.Get(name), p.Value) != 0) {
			return nil, false
		}
		asked[name] = true
	}
	rank[4] = len(asked)
	return rank, true
}
