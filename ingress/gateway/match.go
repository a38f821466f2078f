package gateway

import (
	"net/textproto"
	"regexp"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/ingress"
)

// match reads what a request must have. Of several headers, or queries, of one name
// only the first counts: so the API has it.
func (r *ruleReader) match(in *gatewayv1.HTTPRouteMatch) (ingress.Match, bool) {
	out, ok := r.path(in.Path)
	if in.Method != nil {
		out.Method = string(*in.Method)
	}
	for _, h := range in.Headers {
		name := textproto.CanonicalMIMEHeaderKey(string(h.Name))
		regex := h.Type != nil && *h.Type == gatewayv1.HeaderMatchRegularExpression
		pair, good := r.pair(name, h.Value, regex)
		out.Headers, ok = addFirst(out.Headers, pair), ok && good
	}
	for _, q := range in.QueryParams {
		regex := q.Type != nil && *q.Type == gatewayv1.QueryParamMatchRegularExpression
		pair, good := r.pair(string(q.Name), q.Value, regex)
		out.Queries, ok = addFirst(out.Queries, pair), ok && good
	}
	return out, ok
}

func (r *ruleReader) path(in *gatewayv1.HTTPPathMatch) (ingress.Match, bool) {
	out := ingress.Match{Path: "/"}
	if in == nil {
		return out, true
	}
	if in.Value != nil {
		out.Path = *in.Value
	}
	if in.Type != nil {
		switch *in.Type {
		case gatewayv1.PathMatchExact:
			out.Kind = ingress.PathExact
		case gatewayv1.PathMatchPathPrefix:
		case gatewayv1.PathMatchRegularExpression:
			out.Kind = ingress.PathRegex
		default:
			r.fault(gatewayv1.RouteReasonUnsupportedValue, "path type %s is not served", *in.Type)
			return out, false
		}
	}
	if out.Kind == ingress.PathRegex {
		out.Regex = r.regex(out.Path)
		return out, out.Regex != nil
	}
	// Requests are compared in the form that ParsePath gives them, so paths are too.
	path, err := ingress.ParsePath(out.Path)
	if err != nil {
		r.fault(gatewayv1.RouteReasonUnsupportedValue, "path %q: %v", out.Path, err)
		return out, false
	}
	out.Path = path.Match
	return out, true
}

func (r *ruleReader) pair(name, value string, regex bool) (ingress.Pair, bool) {
	out := ingress.Pair{Name: name, Value: value}
	if regex {
		out.Regex = r.regex(value)
	}
	return out, !regex || out.Regex != nil
}

// regex compiles a regular expression, which the API leaves to implementations: it
// is RE2 here, and must match the whole text, not a part of it.
func (r *ruleReader) regex(text string) *regexp.Regexp {
	re, err := regexp.Compile(`^(?:` + text + `)$`)
	if err != nil {
		r.fault(gatewayv1.RouteReasonUnsupportedValue, "regular expression %q: %v", text, err)
		return nil
	}
	return re
}

func addFirst(list []ingress.Pair, p ingress.Pair) []ingress.Pair {
	for _, have := range list {
		if have.Name == p.Name {
			return list
		}
	}
	return append(list, p)
}
