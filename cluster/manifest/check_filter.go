package manifest

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// filterCheck validates the filters of a rule, whose matches bound what they may do.
type filterCheck struct{ matches []gatewayv1.HTTPRouteMatch }

// mostFilters is the limit of one list, mostOrigins of one list within a CORS filter.
const (
	mostFilters = 16
	mostOrigins = 64
	mostMethods = 9
)

func (c filterCheck) list(filters []gatewayv1.HTTPRouteFilter, path *field.Path) field.ErrorList {
	errs := bounded(path, len(filters), 0, mostFilters)
	seen := map[gatewayv1.HTTPRouteFilterType]bool{}
	for i := range filters {
		f, at := &filters[i], path.Index(i)
		errs = append(errs, checkUnion(f, at)...)
		errs = append(errs, c.parts(f, at)...)
		switch f.Type {
		case gatewayv1.HTTPRouteFilterRequestMirror, gatewayv1.HTTPRouteFilterExtensionRef: // any number of them
		default:
			errs = append(errs, seenBefore(seen, f.Type, at.Child("type"), f.Type)...)
		}
	}
	if seen[gatewayv1.HTTPRouteFilterRequestRedirect] && seen[gatewayv1.HTTPRouteFilterURLRewrite] {
		errs = append(errs, field.Invalid(path, "", "may specify either RequestRedirect or URLRewrite, but not both"))
	}
	return errs
}

// checkUnion wants the one part of a filter that its type names.
func checkUnion(f *gatewayv1.HTTPRouteFilter, path *field.Path) (errs field.ErrorList) {
	type part struct {
		kind gatewayv1.HTTPRouteFilterType
		name string
		set  bool
	}
	parts := []part{
		{gatewayv1.HTTPRouteFilterRequestHeaderModifier, "requestHeaderModifier", f.RequestHeaderModifier != nil},
		{gatewayv1.HTTPRouteFilterResponseHeaderModifier, "responseHeaderModifier", f.ResponseHeaderModifier != nil},
		{gatewayv1.HTTPRouteFilterRequestMirror, "requestMirror", f.RequestMirror != nil},
		{gatewayv1.HTTPRouteFilterRequestRedirect, "requestRedirect", f.RequestRedirect != nil},
		{gatewayv1.HTTPRouteFilterURLRewrite, "urlRewrite", f.URLRewrite != nil},
		{gatewayv1.HTTPRouteFilterCORS, "cors", f.CORS != nil},
		{gatewayv1.HTTPRouteFilterExtensionRef, "extensionRef", f.ExtensionRef != nil},
	}
	known := make([]gatewayv1.HTTPRouteFilterType, len(parts))
	for i, p := range parts {
		known[i] = p.kind
		switch {
		case p.set && f.Type != p.kind:
			errs = append(errs, field.Forbidden(path.Child(p.name), "must be nil if the filter.type is not "+string(p.kind)))
		case !p.set && f.Type == p.kind:
			errs = append(errs, field.Required(path.Child(p.name), "must be specified for "+string(p.kind)+" filter.type"))
		}
	}
	return append(errs, oneOf(path.Child("type"), f.Type, known...)...)
}

func (c filterCheck) parts(f *gatewayv1.HTTPRouteFilter, path *field.Path) (errs field.ErrorList) {
	if h := f.RequestHeaderModifier; h != nil {
		errs = append(errs, checkHeaderFilter(h, path.Child("requestHeaderModifier"))...)
	}
	if h := f.ResponseHeaderModifier; h != nil {
		errs = append(errs, checkHeaderFilter(h, path.Child("responseHeaderModifier"))...)
	}
	if m := f.RequestMirror; m != nil {
		errs = append(errs, checkMirror(m, path.Child("requestMirror"))...)
	}
	if r := f.RequestRedirect; r != nil {
		errs = append(errs, c.redirect(r, path.Child("requestRedirect"))...)
	}
	if r := f.URLRewrite; r != nil {
		at := path.Child("urlRewrite")
		errs = append(errs, checkSet(precisePattern, at.Child("hostname"), r.Hostname)...)
		errs = append(errs, c.modifier(r.Path, at.Child("path"))...)
	}
	if f.CORS != nil {
		errs = append(errs, checkCORS(f.CORS, path.Child("cors"))...)
	}
	if r := f.ExtensionRef; r != nil {
		errs = append(errs, checkObjectRef(*r, path.Child("extensionRef"))...)
	}
	return errs
}

func checkHeaderFilter(h *gatewayv1.HTTPHeaderFilter, path *field.Path) field.ErrorList {
	errs := append(checkHeaders(h.Set, path.Child("set")), checkHeaders(h.Add, path.Child("add"))...)
	at := path.Child("remove")
	errs = append(errs, bounded(at, len(h.Remove), 0, mostHeaders)...)
	seen := map[string]bool{}
	for i, name := range h.Remove {
		errs = append(errs, seenBefore(seen, name, at.Index(i), name)...)
	}
	return errs
}

func checkHeaders(headers []gatewayv1.HTTPHeader, path *field.Path) field.ErrorList {
	errs := bounded(path, len(headers), 0, mostHeaders)
	seen := map[gatewayv1.HTTPHeaderName]bool{}
	for i, h := range headers {
		errs = append(errs, checkNamed(path.Index(i), string(h.Name), h.Value, longestValue)...)
		errs = append(errs, seenBefore(seen, h.Name, path.Index(i).Child("name"), h.Name)...)
	}
	return errs
}

func checkMirror(m *gatewayv1.HTTPRequestMirrorFilter, path *field.Path) field.ErrorList {
	errs := append(checkBackendRef(&m.BackendRef, path.Child("backendRef")), within(path.Child("percent"), m.Percent, 0, 100)...)
	f, at := m.Fraction, path.Child("fraction")
	if f == nil {
		return errs
	}
	if m.Percent != nil {
		errs = append(errs, field.Forbidden(at, "only one of percent or fraction may be specified in HTTPRequestMirrorFilter"))
	}
	if f.Numerator < 0 {
		errs = append(errs, field.Invalid(at.Child("numerator"), f.Numerator, "must be 0 or greater"))
	}
	if *f.Denominator < 1 {
		errs = append(errs, field.Invalid(at.Child("denominator"), *f.Denominator, "must be 1 or greater"))
	}
	if f.Numerator > *f.Denominator {
		errs = append(errs, field.Invalid(at, f.Numerator, "numerator must be less than or equal to denominator"))
	}
	return errs
}

func (c filterCheck) redirect(r *gatewayv1.HTTPRequestRedirectFilter, path *field.Path) field.ErrorList {
	errs := lists(
		checkSet(precisePattern, path.Child("hostname"), r.Hostname),
		within(path.Child("port"), r.Port, 1, maxPort),
		c.modifier(r.Path, path.Child("path")),
	)
	if r.Scheme != nil {
		errs = append(errs, oneOf(path.Child("scheme"), *r.Scheme, "http", "https")...)
	}
	switch *r.StatusCode {
	case 301, 302, 303, 307, 308:
		return errs
	}
	return append(errs, field.NotSupported(path.Child("statusCode"), *r.StatusCode, []string{"301", "302", "303", "307", "308"}))
}

// modifier validates what takes the place of a path.
func (c filterCheck) modifier(m *gatewayv1.HTTPPathModifier, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	full, prefix := m.Type == gatewayv1.FullPathHTTPPathModifier, m.Type == gatewayv1.PrefixMatchHTTPPathModifier
	errs := lists(
		oneOf(path.Child("type"), m.Type, gatewayv1.FullPathHTTPPathModifier, gatewayv1.PrefixMatchHTTPPathModifier),
		checkReplacement(m.ReplaceFullPath, full, path.Child("replaceFullPath")),
		checkReplacement(m.ReplacePrefixMatch, prefix, path.Child("replacePrefixMatch")),
	)
	if prefix && m.ReplacePrefixMatch != nil && !c.onePrefix() {
		errs = append(errs, field.Invalid(path.Child("replacePrefixMatch"), *m.ReplacePrefixMatch, "exactly one PathPrefix match must be specified"))
	}
	return errs
}

// onePrefix tells whether the rule has one match, and that by prefix.
func (c filterCheck) onePrefix() bool {
	return len(c.matches) == 1 && *c.matches[0].Path.Type == gatewayv1.PathMatchPathPrefix
}

// checkReplacement wants the replacement that the type of a modifier names, and no other.
func checkReplacement(value *string, wanted bool, path *field.Path) field.ErrorList {
	switch {
	case wanted && value == nil:
		return field.ErrorList{field.Required(path, "must be specified for this type")}
	case !wanted && value != nil:
		return field.ErrorList{field.Forbidden(path, "must not be set for this type")}
	case value != nil && utf8.RuneCountInString(*value) > longestPath:
		return field.ErrorList{field.TooLong(path, *value, longestPath)}
	}
	return nil
}

func checkCORS(c *gatewayv1.HTTPCORSFilter, path *field.Path) field.ErrorList {
	errs := lists(
		checkStars(c.AllowOrigins, mostOrigins, path.Child("allowOrigins"), true),
		checkStars(c.AllowMethods, mostMethods, path.Child("allowMethods"), true),
		checkStars(c.AllowHeaders, mostOrigins, path.Child("allowHeaders"), true),
		checkStars(c.ExposeHeaders, mostOrigins, path.Child("exposeHeaders"), false),
	)
	for i, o := range c.AllowOrigins {
		errs = append(errs, originPattern.check(path.Child("allowOrigins").Index(i), string(o))...)
	}
	for i, m := range c.AllowMethods {
		errs = append(errs, oneOf(path.Child("allowMethods").Index(i), m, "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "*")...)
	}
	for i, h := range c.AllowHeaders {
		errs = append(errs, headerPattern.check(path.Child("allowHeaders").Index(i), string(h))...)
	}
	for i, h := range c.ExposeHeaders {
		errs = append(errs, headerPattern.check(path.Child("exposeHeaders").Index(i), string(h))...)
	}
	if c.MaxAge < 1 {
		errs = append(errs, field.Invalid(path.Child("maxAge"), c.MaxAge, "must be 1 or greater"))
	}
	return errs
}

// checkStars validates a set in which a star may stand only by itself.
func checkStars[T ~string](set []T, most int, path *field.Path, alone bool) field.ErrorList {
	errs := bounded(path, len(set), 0, most)
	seen := map[T]bool{}
	for i, v := range set {
		errs = append(errs, seenBefore(seen, v, path.Index(i), v)...)
	}
	if alone && seen["*"] && len(set) > 1 {
		errs = append(errs, field.Invalid(path, "*", "cannot contain '*' alongside others"))
	}
	return errs
}
