package ingress

import (
	"cmp"
	"slices"
	"strings"
)

// pathRank orders the paths of a host.
type pathRank uint8

const (
	exactPath    pathRank = iota
	sized                 // prefixes and regular expressions, the longest first
	ownDefault            // spec.defaultBackend of an object with the host
	classDefault          // spec.defaultBackend of an object without rules
)

// claimKey is what only one object can have.
type claimKey struct {
	host Hostname
	rank pathRank
	kind PathKind
	path string
}

// claim is what an object asks for.
type claim struct {
	key     claimKey
	written written
	object  *object
	field   string
	match   Match
	weak    bool
	share   Share
}

// written is a path as the object has it, before annotations say what it means.
type written struct {
	host       Hostname
	path, kind string
}

func (c *compiler) claim(k *claim) { c.claims[k.key] = append(c.claims[k.key], k) }

// routes decides the claims and returns the routes in order of precedence.
func (c *compiler) routes() []Route {
	winners := make([]*claim, 0, len(c.claims))
	var canaries []*claim
	for _, claims := range c.claims {
		mains, others := divide(claims)
		canaries = append(canaries, others...)
		if len(mains) > 0 {
			c.losers(mains)
			winners = append(winners, mains[0])
		}
	}
	slices.SortFunc(winners, comparePrecedence)
	of := c.attach(winners, canaries)
	routes := make([]Route, 0, len(winners))
	for _, k := range winners {
		main := c.route(k)
		if with := of[k]; with != nil {
			share := with.share
			share.Object, share.Field = with.object.ref(), with.field
			// What is not the canary's to say is as its main object says it.
			share.Backend.Protocol = k.object.options.protocol
			share.Backend.Refused = cmp.Or(k.object.options.refused, share.Backend.Refused)
			routes = append(routes, with.object.options.canary.split(main, share)...)
			continue
		}
		routes = append(routes, main)
	}
	return routes
}

// divide parts canaries from the rest, which come in order of who has the claim: the
// longer spelling of a prefix (/foo/ before /foo), Prefix before
// ImplementationSpecific, then the older object.
func divide(claims []*claim) (mains, canaries []*claim) {
	for _, k := range claims {
		if k.object.options.canary == nil {
			mains = append(mains, k)
		} else {
			canaries = append(canaries, k)
		}
	}
	slices.SortFunc(mains, compareClaims)
	return mains, canaries
}

func compareClaims(a, b *claim) int {
	return cmp.Or(cmp.Compare(len(b.match.Path), len(a.match.Path)), boolCompare(a.weak, b.weak),
		compareAge(a.object.CreationTimestamp, b.object.CreationTimestamp, a.object, b.object),
		cmp.Compare(a.share.Backend.String(), b.share.Backend.String()), cmp.Compare(a.field, b.field))
}

// losers reports those that do not have what they claim.
func (c *compiler) losers(mains []*claim) {
	for _, k := range mains[1:] {
		c.warn(k.object, k.field, "%s of host %s belongs to %s (%s), which is %s: this one gets no request until that goes",
			k.what(), k.key.host, mains[0].object.ref(), mains[0].field, k.behind(mains[0]))
	}
}

// what names the claim for people.
func (k *claim) what() string {
	switch {
	case k.key.rank >= ownDefault:
		return "the default backend"
	case k.key.kind == PathExact:
		return "exact path " + k.match.Path
	case k.key.kind == PathRegex:
		return "regular expression " + k.match.Path
	}
	return "path " + k.match.Path
}

// behind says why another claim comes first.
func (k *claim) behind(winner *claim) string {
	switch {
	case len(k.match.Path) != len(winner.match.Path):
		return "longer (" + winner.match.Path + ") and matches the same"
	case k.weak != winner.weak:
		return "of type Prefix"
	case k.object == winner.object:
		return "in the same object"
	case k.object.CreationTimestamp.Equal(&winner.object.CreationTimestamp):
		return "as old and first by name"
	}
	return "older"
}

// route makes the route of a claim.
func (c *compiler) route(k *claim) Route {
	o := k.object.options
	out := Route{
		Object: k.object.ref(), Field: k.field, Match: k.match, Settings: o.settings, Access: o.access, Split: []Share{k.share},
	}
	if k.key.host.Name != "" {
		out.Hosts = []Hostname{k.key.host}
	}
	out.Settings.RedirectTLS = o.forceRedirectTo || o.sslRedirect && c.isSecure(k.key.host, k.object)
	if o.rewrite != "" && k.key.rank < ownDefault {
		out.Filters = []Filter{{Kind: Rewrite, URL: URLChange{Path: o.rewrite, HasPath: true, Captures: strings.Contains(o.rewrite, "$")}}}
	}
	return out
}

// comparePrecedence orders claims as the API says: the host, exact paths, the longest
// path; the rest makes the order a total one.
func comparePrecedence(a, b *claim) int {
	return cmp.Or(a.key.host.Compare(b.key.host), cmp.Compare(a.key.rank, b.key.rank),
		cmp.Compare(len(b.match.Path), len(a.match.Path)), cmp.Compare(a.key.kind, b.key.kind), cmp.Compare(a.match.Path, b.match.Path))
}
