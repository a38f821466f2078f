package gateway

import (
	"cmp"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/ingress"
)

// ranked is a route with what its precedence is decided by.
type ranked struct {
	ingress.Route
	host        ingress.Hostname
	object      *gatewayv1.HTTPRoute
	rule, match int
}

// inOrder returns routes in the order of precedence of the API.
func inOrder(routes []ranked) []ingress.Route {
	slices.SortFunc(routes, compare)
	out := make([]ingress.Route, len(routes))
	for i := range routes {
		out[i] = routes[i].Route
	}
	return out
}

// compare orders by host, path, method, the numbers of headers and queries, the age and the
// name of the object, and the place in it. The API says nothing of regular
// expressions: they come after exact paths and before prefixes, the longer ones first,
// as a rule for "/" would hide them otherwise.
func compare(a, b ranked) int {
	m, n := &a.Match, &b.Match
	return cmp.Or(
		a.host.Compare(b.host),
		cmp.Compare(kindRank(m.Kind), kindRank(n.Kind)),
		cmp.Compare(pathLength(n), pathLength(m)),
		boolFirst(m.Method != "", n.Method != ""),
		cmp.Compare(len(n.Headers), len(m.Headers)),
		cmp.Compare(len(n.Queries), len(m.Queries)),
		older(a.object, b.object),
		cmp.Compare(a.rule, b.rule),
		cmp.Compare(a.match, b.match),
	)
}

func kindRank(k ingress.PathKind) int {
	switch k {
	case ingress.PathExact:
		return 0
	case ingress.PathRegex:
		return 1
	}
	return 2
}

// pathLength counts what of a path is compared: "/a" and "/a/" are one prefix.
func pathLength(m *ingress.Match) int {
	if m.Kind == ingress.PathPrefix {
		return len(strings.TrimRight(m.Path, "/"))
	}
	return len(m.Path)
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
