package manifest

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// The limits of the CRD for one HTTPRoute.
const (
	mostParents     = 32
	mostHostnames   = 16
	mostRules       = 16
	mostMatches     = 64  // of a rule
	mostMatchesEver = 128 // of a route
	mostBackends    = 16
	mostHeaders     = 16
	longestQuery    = 1024
	mostWeight      = 1000000
)

func checkHTTPRoute(r *gatewayv1.HTTPRoute) field.ErrorList {
	spec, path := &r.Spec, field.NewPath("spec")
	errs := lists(
		checkMeta(&r.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		checkParents(spec.ParentRefs, path.Child("parentRefs")),
		bounded(path.Child("hostnames"), len(spec.Hostnames), 0, mostHostnames),
		bounded(path.Child("rules"), len(spec.Rules), 1, mostRules),
	)
	for i, h := range spec.Hostnames {
		errs = append(errs, hostnamePattern.check(path.Child("hostnames").Index(i), string(h))...)
	}
	matches := 0
	for i := range spec.Rules {
		matches += len(spec.Rules[i].Matches)
		errs = append(errs, checkRouteRule(&spec.Rules[i], path.Child("rules").Index(i))...)
	}
	if matches > mostMatchesEver {
		errs = append(errs, field.TooMany(path.Child("rules"), matches, mostMatchesEver))
	}
	return errs
}

// parentKey is what two parents of a route may share only when each names another
// section.
type parentKey struct {
	group     gatewayv1.Group
	kind      gatewayv1.Kind
	namespace gatewayv1.Namespace
	name      gatewayv1.ObjectName
}

func checkParents(parents []gatewayv1.ParentReference, path *field.Path) field.ErrorList {
	errs := bounded(path, len(parents), 0, mostParents)
	sections := map[parentKey]map[gatewayv1.SectionName]bool{}
	for i := range parents {
		p, at := &parents[i], path.Index(i)
		key := parentKey{group: *p.Group, kind: *p.Kind, name: p.Name}
		if p.Namespace != nil {
			key.namespace = *p.Namespace
		}
		section := gatewayv1.SectionName("")
		if p.SectionName != nil {
			section = *p.SectionName
		}
		errs = append(errs, checkParent(p, at)...)
		errs = append(errs, checkSection(sections[key], section, at.Child("sectionName"))...)
		if sections[key] == nil {
			sections[key] = map[gatewayv1.SectionName]bool{}
		}
		sections[key][section] = true
	}
	return errs
}

// checkSection tells whether a section of a parent can stand beside those before it.
func checkSection(before map[gatewayv1.SectionName]bool, section gatewayv1.SectionName, path *field.Path) field.ErrorList {
	switch {
	case before[section]:
		return field.ErrorList{field.Invalid(path, section, "sectionName must be unique when parentRefs includes 2 or more references to the same parent")}
	case len(before) > 0 && (section == "" || before[""]):
		return field.ErrorList{field.Required(path, "sectionName must be specified when parentRefs includes 2 or more references to the same parent")}
	}
	return nil
}

func checkParent(p *gatewayv1.ParentReference, path *field.Path) field.ErrorList {
	return lists(
		checkObjectRef(gatewayv1.LocalObjectReference{Group: *p.Group, Kind: *p.Kind, Name: p.Name}, path),
		checkSet(namespacePattern, path.Child("namespace"), p.Namespace),
		checkSet(sectionPattern, path.Child("sectionName"), p.SectionName),
		within(path.Child("port"), p.Port, 1, maxPort),
	)
}

func checkRouteRule(r *gatewayv1.HTTPRouteRule, path *field.Path) field.ErrorList {
	filters := filterCheck{matches: r.Matches}
	errs := lists(
		checkSet(sectionPattern, path.Child("name"), r.Name),
		bounded(path.Child("matches"), len(r.Matches), 0, mostMatches),
		bounded(path.Child("backendRefs"), len(r.BackendRefs), 0, mostBackends),
		filters.list(r.Filters, path.Child("filters")),
		checkTimeouts(r.Timeouts, path.Child("timeouts")),
	)
	for i := range r.Matches {
		errs = append(errs, checkRouteMatch(&r.Matches[i], path.Child("matches").Index(i))...)
	}
	for i := range r.BackendRefs {
		b, at := &r.BackendRefs[i], path.Child("backendRefs").Index(i)
		errs = append(errs, checkBackendRef(&b.BackendObjectReference, at)...)
		errs = append(errs, within(at.Child("weight"), b.Weight, 0, mostWeight)...)
		errs = append(errs, filters.list(b.Filters, at.Child("filters"))...)
	}
	for i := range r.Filters {
		if r.Filters[i].RequestRedirect != nil && len(r.BackendRefs) > 0 {
			errs = append(errs, field.Forbidden(path.Child("filters").Index(i).Child("requestRedirect"), "RequestRedirect filter must not be used together with backendRefs"))
		}
	}
	return errs
}

func checkBackendRef(r *gatewayv1.BackendObjectReference, path *field.Path) field.ErrorList {
	errs := lists(
		checkObjectRef(gatewayv1.LocalObjectReference{Group: *r.Group, Kind: *r.Kind, Name: r.Name}, path),
		checkSet(namespacePattern, path.Child("namespace"), r.Namespace),
		within(path.Child("port"), r.Port, 1, maxPort),
	)
	if *r.Group == "" && *r.Kind == "Service" && r.Port == nil {
		errs = append(errs, field.Required(path.Child("port"), "must have port for Service reference"))
	}
	return errs
}

func checkRouteMatch(m *gatewayv1.HTTPRouteMatch, path *field.Path) field.ErrorList {
	headers, queries := path.Child("headers"), path.Child("queryParams")
	errs := lists(
		checkPathMatch(m.Path, path.Child("path")),
		bounded(headers, len(m.Headers), 0, mostHeaders),
		bounded(queries, len(m.QueryParams), 0, mostHeaders),
	)
	if m.Method != nil {
		errs = append(errs, oneOf(path.Child("method"), *m.Method, gatewayv1.HTTPMethodGet, gatewayv1.HTTPMethodHead, gatewayv1.HTTPMethodPost,
			gatewayv1.HTTPMethodPut, gatewayv1.HTTPMethodDelete, gatewayv1.HTTPMethodConnect, gatewayv1.HTTPMethodOptions,
			gatewayv1.HTTPMethodTrace, gatewayv1.HTTPMethodPatch)...)
	}
	seen := map[string]bool{}
	for i, h := range m.Headers {
		errs = append(errs, checkNamed(headers.Index(i), string(h.Name), h.Value, longestValue)...)
		errs = append(errs, checkMatchKind(headers.Index(i), string(*h.Type), h.Value)...)
		errs = append(errs, seenBefore(seen, string(h.Name), headers.Index(i).Child("name"), h.Name)...)
	}
	seen = map[string]bool{}
	for i, q := range m.QueryParams {
		errs = append(errs, checkNamed(queries.Index(i), string(q.Name), q.Value, longestQuery)...)
		errs = append(errs, checkMatchKind(queries.Index(i), string(*q.Type), q.Value)...)
		errs = append(errs, seenBefore(seen, string(q.Name), queries.Index(i).Child("name"), q.Name)...)
	}
	return errs
}

// checkNamed validates the name of a header or a query parameter and its value.
func checkNamed(path *field.Path, name, value string, longest int) field.ErrorList {
	return append(headerPattern.check(path.Child("name"), name), text{longest: longest}.check(path.Child("value"), value)...)
}

func checkMatchKind(path *field.Path, kind, value string) field.ErrorList {
	if kind != string(gatewayv1.HeaderMatchRegularExpression) {
		return oneOf(path.Child("type"), kind, string(gatewayv1.HeaderMatchExact), string(gatewayv1.HeaderMatchRegularExpression))
	}
	return checkExpression(path.Child("value"), value)
}

// checkExpression refuses what is no regular expression. CRDs let anything pass,
// and leave it to whoever serves the route to refuse it.
func checkExpression(path *field.Path, expression string) field.ErrorList {
	if _, err := regexp.Compile(expression); err != nil {
		return field.ErrorList{field.Invalid(path, expression, "must be a regular expression of RE2: "+err.Error())}
	}
	return nil
}

func checkPathMatch(m *gatewayv1.HTTPPathMatch, path *field.Path) field.ErrorList {
	at, value := path.Child("value"), *m.Value
	errs := oneOf(path.Child("type"), *m.Type, gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix, gatewayv1.PathMatchRegularExpression)
	switch {
	case utf8.RuneCountInString(value) > longestPath:
		return append(errs, field.TooLong(at, value, longestPath))
	case *m.Type == gatewayv1.PathMatchRegularExpression:
		return append(errs, checkExpression(at, value)...)
	case !strings.HasPrefix(value, "/"):
		return append(errs, field.Invalid(at, value, "must be an absolute path and start with '/'"))
	case !pathPattern.pattern.MatchString(value):
		errs = append(errs, field.Invalid(at, value, "must only contain characters of a path; write others as % and two hexadecimal digits"))
	}
	return append(errs, checkPathParts(at, value)...)
}

func checkTimeouts(t *gatewayv1.HTTPRouteTimeouts, path *field.Path) field.ErrorList {
	if t == nil {
		return nil
	}
	errs := append(checkSet(durationPattern, path.Child("request"), t.Request), checkSet(durationPattern, path.Child("backendRequest"), t.BackendRequest)...)
	if len(errs) > 0 || t.Request == nil || t.BackendRequest == nil {
		return errs
	}
	whole, one := duration(*t.Request), duration(*t.BackendRequest)
	if whole != 0 && one > whole {
		errs = append(errs, field.Invalid(path.Child("backendRequest"), *t.BackendRequest, "backendRequest timeout cannot be longer than request timeout"))
	}
	return errs
}

// duration reads one that the pattern has let pass: Go's syntax is wider.
func duration(d gatewayv1.Duration) time.Duration {
	out, _ := time.ParseDuration(string(d))
	return out
}
