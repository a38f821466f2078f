package gateway

import (
	"fmt"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// route is an HTTPRoute, read.
type route struct {
	object *gatewayv1.HTTPRoute
	hosts  []ingress.Hostname
	rules  []rule
	// refs is the condition ResolvedRefs.
	refs verdict
}

// rule is one rule of an HTTPRoute with its matches. Its routes have no host yet.
type rule struct {
	routes []ranked
	// broken says what is not served of the rule, and reason is the API's word for it.
	broken string
	reason gatewayv1.RouteConditionReason
}

func (w *world) readRoute(object *gatewayv1.HTTPRoute) *route {
	r := &route{
		object: object,
		refs:   yes(gatewayv1.RouteConditionResolvedRefs, gatewayv1.RouteReasonResolvedRefs, "all references are resolved"),
	}
	for _, name := range object.Spec.Hostnames {
		r.hosts = append(r.hosts, hostname(&name))
	}
	rules := object.Spec.Rules
	if len(rules) == 0 { // what the API's default is
		rules = []gatewayv1.HTTPRouteRule{{}}
	}
	for i := range rules {
		reader := &ruleReader{world: w, route: r, field: fmt.Sprintf("spec.rules[%d]", i)}
		r.rules = append(r.rules, reader.read(&rules[i], i))
	}
	return r
}

// unresolved notes the first reference that leads nowhere.
func (r *route) unresolved(reason gatewayv1.RouteConditionReason, message string) {
	if r.refs.holds {
		r.refs = no(gatewayv1.RouteConditionResolvedRefs, reason, message)
	}
}

// invalid returns the condition Accepted of a route none of whose rules is served, else nil.
func (r *route) invalid() *verdict {
	for _, rule := range r.rules {
		if rule.broken == "" {
			return nil
		}
	}
	return new(no(gatewayv1.RouteConditionAccepted, r.rules[0].reason, r.rules[0].broken))
}

// verdicts are the conditions beside Accepted: ResolvedRefs, and PartiallyInvalid of a
// route some of whose rules are not served.
func (r *route) verdicts() []verdict {
	out := []verdict{r.refs}
	var dropped []string
	for _, rule := range r.rules {
		if rule.broken != "" {
			dropped = append(dropped, rule.broken)
		}
	}
	if len(dropped) > 0 && len(dropped) < len(r.rules) {
		out = append(out, yes(gatewayv1.RouteConditionPartiallyInvalid, gatewayv1.RouteReasonUnsupportedValue,
			"Dropped Rule(s), whose requests get 500: "+strings.Join(dropped, "; ")))
	}
	return out
}

// forListener returns the routes as a listener serves them to some hosts.
func (r *route) forListener(l *listener, hosts []ingress.Hostname) []ranked {
	var out []ranked
	for _, rule := range r.rules {
		for _, proto := range rule.routes {
			proto.Filters = redirectPorts(proto.Filters, l.spec)
			for _, host := range hosts {
				next := proto
				next.host, next.Hosts = host, nil
				if host.Name != "" {
					next.Hosts = []ingress.Hostname{host}
				}
				out = append(out, next)
			}
		}
	}
	return out
}

// ruleReader reads one rule. What is wrong with it gathers in the rule.
type ruleReader struct {
	*world
	route *route
	field string
	rule  rule
}

// fault notes what of the rule is not served.
func (r *ruleReader) fault(reason gatewayv1.RouteConditionReason, format string, args ...any) {
	if r.rule.broken == "" {
		r.rule.broken, r.rule.reason = r.field+": "+fmt.Sprintf(format, args...), reason
	}
}

func (r *ruleReader) read(in *gatewayv1.HTTPRouteRule, index int) rule {
	object := r.route.object
	out := ingress.Route{
		Object:   cluster.MakeRef(cluster.HTTPRoute, object.Namespace, object.Name),
		Filters:  r.filters(in.Filters),
		Split:    r.split(in.BackendRefs),
		Settings: r.settings(in.Timeouts),
	}
	matches := in.Matches
	if len(matches) == 0 {
		matches = []gatewayv1.HTTPRouteMatch{{}}
	}
	for i := range matches {
		m, ok := r.match(&matches[i])
		if !ok {
			continue
		}
		next := out
		next.Match, next.Field = m, r.field
		if len(in.Matches) > 0 {
			next.Field = fmt.Sprintf("%s.matches[%d]", r.field, i)
		}
		r.rule.routes = append(r.rule.routes, ranked{Route: next, object: object, rule: index, match: i})
	}
	if r.rule.broken != "" {
		// A rule that is not known in whole must not be served in part (a filter may guard
		// it), nor leave its requests to another rule: they get 500.
		for i := range r.rule.routes {
			r.rule.routes[i].Filters, r.rule.routes[i].Split = nil, nil
		}
	}
	return r.rule
}

// settings reads the timeouts. A timeout of 0s is none.
func (r *ruleReader) settings(t *gatewayv1.HTTPRouteTimeouts) ingress.Settings {
	var out ingress.Settings
	if t == nil {
		return out
	}
	out.RequestTimeout = r.duration("timeouts.request", t.Request)
	out.BackendTimeout = r.duration("timeouts.backendRequest", t.BackendRequest)
	if out.RequestTimeout > 0 && out.BackendTimeout > out.RequestTimeout {
		r.fault(gatewayv1.RouteReasonUnsupportedValue, "timeouts.backendRequest: %s is longer than timeouts.request, %s", *t.BackendRequest, *t.Request)
	}
	return out
}

// forever is the timeout of what has none: a century.
const forever = 100 * 365 * 24 * time.Hour

func (r *ruleReader) duration(field string, text *gatewayv1.Duration) time.Duration {
	if text == nil {
		return 0
	}
	d, err := time.ParseDuration(string(*text))
	switch {
	case err != nil || d < 0:
		r.fault(gatewayv1.RouteReasonUnsupportedValue, "%s: %q is no duration: write 10s, or 1m30s", field, *text)
		return 0
	case d == 0:
		return forever
	}
	return d
}
