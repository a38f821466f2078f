package ingress

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Explanation says what becomes of one request, and why. Its JSON is what explain
// prints with -o json.
type Explanation struct {
	// Status is what the client gets from the proxy itself; 0 when an endpoint answers.
	Status int `json:"status,omitempty"`
	// Answer is a sentence: who answers, or with what.
	Answer string `json:"answer"`
	// Port and Listener are those that take the request; Listener may be empty.
	Port     uint16 `json:"port"`
	Listener string `json:"listener,omitempty"`
	// Object and Field are those of the route, Match what it asks for.
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	Match  string `json:"match,omitempty"`
	// Position is where the field stands in the manifests, such as "shop.yaml:12:9"; Explain
	// does not know it.
	Position string `json:"position,omitempty"`
	// Filters say what is changed on the way, in their order.
	Filters []string `json:"filters,omitempty"`
	// Backends are those of the route, with their shares.
	Backends []ExplainedBackend `json:"backends,omitempty"`
	// Route is what has the request; nil when nothing does.
	Route *Route `json:"-"`
}

// ExplainedBackend is one backend of a route.
type ExplainedBackend struct {
	Backend string `json:"backend"`
	// Share is the part of the route's requests, from 0 to 1.
	Share    float64 `json:"share"`
	Protocol string  `json:"protocol,omitempty"`
	// Reason says why the backend has no endpoints: its requests get 503, or 500 where
	// the reference is not followed.
	Reason string `json:"reason,omitempty"`
	// External is the host and port of an ExternalName Service.
	External  string              `json:"external,omitempty"`
	Endpoints []ExplainedEndpoint `json:"endpoints,omitempty"`
}

// ExplainedEndpoint is one endpoint, with its part of the route's requests.
type ExplainedEndpoint struct {
	Address string  `json:"address"`
	Pod     string  `json:"pod,omitempty"`
	Share   float64 `json:"share"`
}

// Question is a request to a port of a proxy, at one moment.
type Question struct {
	Router *Router
	Port   uint16
	// TLS: the client speaks TLS.
	TLS      bool
	Request  Request
	Services []*corev1.Service
	Slices   []*discoveryv1.EndpointSlice
}

// Explain says what the proxy does with the request, and what its backends come to.
func (q Question) Explain() Explanation {
	found := q.Router.Lookup(q.Port, q.Request)
	e := Explanation{Port: q.Port, Route: found.Route}
	if found.Listener != nil {
		e.Listener = found.Listener.Name
	}
	if found.Route == nil {
		e.Status, e.Answer = 404, strings.TrimSuffix(found.Why(), ": 404")
		return e
	}
	route := found.Route
	e.Object, e.Field, e.Match = route.Object.String(), route.Field, route.hosts()+", "+route.Match.String()
	for _, f := range route.Filters {
		e.Filters = append(e.Filters, f.String())
		if f.Kind == Redirect {
			e.Status, e.Answer = f.URL.Status, "the proxy itself answers with a redirect"
			return e
		}
	}
	if route.Settings.RedirectTLS && !q.TLS {
		e.Status, e.Answer = 308, "the proxy itself redirects to the same URL with https"
		return e
	}
	e.backends(route, q.Services, q.Slices)
	return e
}

// backends resolves the split of a route.
func (e *Explanation) backends(route *Route, services []*corev1.Service, all []*discoveryv1.EndpointSlice) {
	var total float64
	for _, s := range route.Split {
		total += float64(s.Weight)
	}
	var some []string
	for _, s := range route.Split {
		if s.Weight == 0 {
			continue
		}
		b := explainBackend(s.Backend, float64(s.Weight)/total, services, all)
		e.Backends = append(e.Backends, b)
		if b.Reason == "" {
			some = append(some, b.Backend)
		}
	}
	switch {
	case len(e.Backends) == 0:
		e.Status, e.Answer = 503, "the rule names no backend with a weight"
		if route.Object.Kind == cluster.HTTPRoute {
			e.Status = 500 // as the Gateway API has it
		}
	case len(some) == 0 && route.Split[0].Backend.Refused != "":
		e.Status, e.Answer = 500, "the backend is refused: "+e.Backends[0].Reason
	case len(some) == 0:
		e.Status, e.Answer = 503, "no backend has endpoints: "+e.Backends[0].Backend+": "+e.Backends[0].Reason
	default:
		e.Answer = "goes to " + strings.Join(some, " or ")
	}
}

func explainBackend(b Backend, share float64, services []*corev1.Service, all []*discoveryv1.EndpointSlice) ExplainedBackend {
	out := ExplainedBackend{Backend: b.String(), Share: share}
	res := Resolve(b, serviceOf(b.Service, services), slicesOf(b.Service, all))
	if res.Reason != Usable {
		out.Reason = res.Reason.String()
		if b.Refused != "" {
			out.Reason = b.Refused
		}
		return out
	}
	out.Protocol = res.Protocol.String()
	if res.External != "" {
		out.External = fmt.Sprintf("%s:%d", res.External, res.ExternalPort)
	}
	for _, ep := range res.Endpoints {
		x := ExplainedEndpoint{Address: ep.Address.String(), Share: share / float64(len(res.Endpoints))}
		if ep.Pod.Name != "" {
			x.Pod = ep.Pod.String()
		}
		out.Endpoints = append(out.Endpoints, x)
	}
	return out
}

func serviceOf(name types.NamespacedName, services []*corev1.Service) *corev1.Service {
	for _, s := range services {
		if s.Namespace == name.Namespace && s.Name == name.Name {
			return s
		}
	}
	return nil
}

func slicesOf(name types.NamespacedName, all []*discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice) {
	for _, s := range all {
		if s.Namespace == name.Namespace && s.Labels[discoveryv1.LabelServiceName] == name.Name {
			out = append(out, s)
		}
	}
	return out
}

// Text is the explanation as people read it, for a request such as
// "GET http://api.example.com/v1".
func (e Explanation) Text(request string) string {
	var b strings.Builder
	if e.Status != 0 {
		fmt.Fprintf(&b, "%d: %s: %s\n", e.Status, request, e.Answer)
	} else {
		fmt.Fprintf(&b, "OK: %s %s\n", request, e.Answer)
	}
	if e.Object != "" {
		at := e.Position
		if at != "" {
			at = " (" + at + ")"
		}
		fmt.Fprintf(&b, "  because %s%s, %s: %s\n", e.Object, at, e.Field, e.Match)
	}
	for _, f := range e.Filters {
		fmt.Fprintf(&b, "  filter: %s\n", f)
	}
	for _, s := range e.Backends {
		fmt.Fprintf(&b, "\n%3.0f %% %s", 100*s.Share, s.Backend)
		switch {
		case s.Reason != "":
			fmt.Fprintf(&b, ": %s\n", s.Reason)
		case s.External != "":
			fmt.Fprintf(&b, ": %s, by %s\n", s.External, s.Protocol)
		default:
			fmt.Fprintf(&b, ", by %s\n", s.Protocol)
		}
		for _, ep := range s.Endpoints {
			fmt.Fprintf(&b, "  %5.1f %%  %s  %s\n", 100*ep.Share, ep.Address, ep.Pod)
		}
	}
	return b.String()
}

// String says what a filter does: "set request headers X-A: 1; remove X-B".
func (f Filter) String() string {
	switch f.Kind {
	case RequestHeaders:
		return "request headers: " + f.headerText()
	case ResponseHeaders:
		return "response headers: " + f.headerText()
	case Redirect:
		return fmt.Sprintf("redirect %d to %s", f.URL.Status, f.URL)
	case Rewrite:
		return "rewrite to " + f.URL.String()
	case Mirror:
		if f.Mirror != nil {
			return fmt.Sprintf("mirror %g %% to %s", f.MirrorPercent, f.Mirror)
		}
	}
	return "none"
}

func (f Filter) headerText() string {
	var parts []string
	for _, p := range f.Set {
		parts = append(parts, "set "+p.String())
	}
	for _, p := range f.Add {
		parts = append(parts, "add "+p.String())
	}
	for _, name := range f.Remove {
		parts = append(parts, "remove "+name)
	}
	return strings.Join(parts, "; ")
}

// String is the URL with the parts that stay left out: "https://b.example:8443, path /x".
func (u URLChange) String() string {
	var parts []string
	if u.Scheme != "" {
		parts = append(parts, "scheme "+u.Scheme)
	}
	if u.Hostname != "" {
		parts = append(parts, "host "+u.Hostname)
	}
	if u.Port != 0 {
		parts = append(parts, fmt.Sprintf("port %d", u.Port))
	}
	switch {
	case u.ReplacePrefix:
		parts = append(parts, fmt.Sprintf("%q in the place of the prefix that matched", u.Path))
	case u.HasPath:
		parts = append(parts, "path "+u.Path)
	}
	return strings.Join(parts, ", ")
}
