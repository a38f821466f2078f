package gateway

import (
	"fmt"
	"net/textproto"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/ingress"
)

// filters reads those of a rule or of one backend, in their order.
func (r *ruleReader) filters(list []gatewayv1.HTTPRouteFilter) []ingress.Filter {
	var out []ingress.Filter
	var redirects, rewrites bool
	for i := range list {
		f := &list[i]
		redirects = redirects || f.Type == gatewayv1.HTTPRouteFilterRequestRedirect
		rewrites = rewrites || f.Type == gatewayv1.HTTPRouteFilterURLRewrite
		if next, ok := r.filter(f); ok {
			out = append(out, next)
		}
	}
	if redirects && rewrites {
		r.fault(gatewayv1.RouteReasonIncompatibleFilters, "filters: RequestRedirect and URLRewrite exclude one another: remove one")
	}
	return out
}

// filter reads one; without ok there is nothing to do for it.
func (r *ruleReader) filter(f *gatewayv1.HTTPRouteFilter) (out ingress.Filter, ok bool) {
	switch {
	case f.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && f.RequestHeaderModifier != nil:
		return headers(ingress.RequestHeaders, f.RequestHeaderModifier), true
	case f.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && f.ResponseHeaderModifier != nil:
		return headers(ingress.ResponseHeaders, f.ResponseHeaderModifier), true
	case f.Type == gatewayv1.HTTPRouteFilterRequestRedirect && f.RequestRedirect != nil:
		return r.redirect(f.RequestRedirect), true
	case f.Type == gatewayv1.HTTPRouteFilterURLRewrite && f.URLRewrite != nil:
		out = ingress.Filter{Kind: ingress.Rewrite}
		out.URL.Hostname = text(f.URLRewrite.Hostname)
		r.changePath(&out.URL, f.URLRewrite.Path)
		return out, true
	case f.Type == gatewayv1.HTTPRouteFilterRequestMirror && f.RequestMirror != nil:
		return r.mirror(f.RequestMirror)
	}
	r.fault(gatewayv1.RouteReasonUnsupportedValue, "filter %s is not served: remove it", f.Type)
	return out, false
}

func headers(kind ingress.FilterKind, in *gatewayv1.HTTPHeaderFilter) ingress.Filter {
	out := ingress.Filter{Kind: kind, Set: pairs(in.Set), Add: pairs(in.Add)}
	for _, name := range in.Remove {
		out.Remove = append(out.Remove, textproto.CanonicalMIMEHeaderKey(name))
	}
	return out
}

func pairs(in []gatewayv1.HTTPHeader) []ingress.Pair {
	var out []ingress.Pair
	for _, h := range in {
		out = addFirst(out, ingress.Pair{Name: textproto.CanonicalMIMEHeaderKey(string(h.Name)), Value: h.Value})
	}
	return out
}

func (r *ruleReader) redirect(in *gatewayv1.HTTPRequestRedirectFilter) ingress.Filter {
	out := ingress.Filter{Kind: ingress.Redirect}
	out.URL = ingress.URLChange{Scheme: text(in.Scheme), Hostname: text(in.Hostname), Status: 302}
	if in.Port != nil {
		out.URL.Port = uint16(*in.Port)
	}
	if in.StatusCode != nil {
		out.URL.Status = *in.StatusCode
	}
	if !slices.Contains([]int{301, 302, 303, 307, 308}, out.URL.Status) {
		r.fault(gatewayv1.RouteReasonUnsupportedValue, "requestRedirect.statusCode: %d is no redirect: use 301, 302, 303, 307 or 308", out.URL.Status)
	}
	if s := out.URL.Scheme; s != "" && s != "http" && s != "https" {
		r.fault(gatewayv1.RouteReasonUnsupportedValue, "requestRedirect.scheme: %q: use http or https", s)
	}
	r.changePath(&out.URL, in.Path)
	return out
}

// changePath reads what becomes of the path.
func (r *ruleReader) changePath(to *ingress.URLChange, in *gatewayv1.HTTPPathModifier) {
	switch {
	case in == nil:
	case in.Type == gatewayv1.FullPathHTTPPathModifier:
		to.HasPath, to.Path = true, text(in.ReplaceFullPath)
	case in.Type == gatewayv1.PrefixMatchHTTPPathModifier:
		to.HasPath, to.ReplacePrefix, to.Path = true, true, text(in.ReplacePrefixMatch)
	default:
		r.fault(gatewayv1.RouteReasonUnsupportedValue, "path type %s is not served: use ReplaceFullPath or ReplacePrefixMatch", in.Type)
	}
}

// mirror reads where copies of requests go. One that goes nowhere is left out, as the
// API wants, and told by the condition ResolvedRefs.
func (r *ruleReader) mirror(in *gatewayv1.HTTPRequestMirrorFilter) (ingress.Filter, bool) {
	b := r.backend(&in.BackendRef)
	out := ingress.Filter{Kind: ingress.Mirror, Mirror: &b, MirrorPercent: 100}
	switch {
	case in.Fraction != nil:
		of := int32(100)
		if in.Fraction.Denominator != nil {
			of = *in.Fraction.Denominator
		}
		if of <= 0 || in.Fraction.Numerator < 0 || in.Fraction.Numerator > of {
			r.fault(gatewayv1.RouteReasonUnsupportedValue, "requestMirror.fraction: %d of %d is no share", in.Fraction.Numerator, of)
			return out, false
		}
		out.MirrorPercent = 100 * float64(in.Fraction.Numerator) / float64(of)
	case in.Percent != nil:
		out.MirrorPercent = float64(*in.Percent)
	}
	return out, b.Refused == ""
}

// redirectPorts gives redirects that name no port that of their scheme, or of the
// listener where they name no scheme either. Others are left as they are.
func redirectPorts(filters []ingress.Filter, l *gatewayv1.Listener) []ingress.Filter {
	out := slices.Clone(filters)
	for i := range out {
		if out[i].Kind != ingress.Redirect || out[i].URL.Port != 0 {
			continue
		}
		switch out[i].URL.Scheme {
		case "http":
			out[i].URL.Port = 80
		case "https":
			out[i].URL.Port = 443
		default:
			out[i].URL.Port = uint16(l.Port)
		}
	}
	return out
}

func text[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return fmt.Sprint(*p)
}
