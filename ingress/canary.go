package ingress

import (
	"net/textproto"
	"regexp"
	"slices"
)

// canary is what the annotations of a canary say: which requests of the paths that it
// shares with another object are its own.
type canary struct {
	// header is canonical. value and pattern are empty for "always" and "never".
	header, value string
	pattern       *regexp.Regexp
	cookie        string
	weight, total uint32
}

// canary reads the annotations of a canary, nil when the object is none.
func (a *annotations) canary() *canary {
	header, cookie := a.token("canary-by-header"), a.token("canary-by-cookie")
	value, _ := a.get("canary-by-header-value")
	pattern, _ := a.get("canary-by-header-pattern")
	total := a.number("canary-weight-total", 1, 1e9, 100)
	weight := a.number("canary-weight", 0, total, 0)
	if !a.flag("canary", false) {
		return nil
	}
	out := &canary{
		header: textproto.CanonicalMIMEHeaderKey(header), value: value, cookie: cookie,
		weight: uint32(weight), total: uint32(total),
	}
	if pattern != "" && value == "" && out.header != "" {
		var err error
		if out.pattern, err = regexp.Compile(pattern); err != nil {
			a.bad("canary-by-header-pattern", "is no regular expression (RE2): %v; the header is ignored", err)
			out.header = ""
		}
	}
	if _, weighs := a.get("canary-weight"); out.header == "" && out.cookie == "" && !weighs {
		a.bad("canary", "no header, cookie or weight says which requests it takes, so it takes none: add canary-weight, for one")
	}
	return out
}

// token reads the name of a header or a cookie, "" for none.
func (a *annotations) token(name string) string {
	text, ok := a.get(name)
	if ok && !isToken(text) {
		a.bad(name, "%q cannot be the name of a header or a cookie: it is ignored", text)
		return ""
	}
	return text
}

// split returns the routes of a path that has a canary, in order of precedence:
// header, then cookie, then weight.
func (k *canary) split(main Route, share Share) []Route {
	var out []Route
	add := func(split []Share, change func(*Match)) {
		r := main
		r.Split = split
		change(&r.Match)
		out = append(out, r)
	}
	canary := []Share{share}
	canary[0].Weight = 1
	header := func(p Pair) func(*Match) { return func(m *Match) { m.Headers = []Pair{p} } }
	switch {
	case k.header == "":
	case k.pattern != nil:
		add(canary, header(Pair{Name: k.header, Regex: k.pattern}))
	case k.value != "":
		add(canary, header(Pair{Name: k.header, Value: k.value}))
	default:
		add(canary, header(Pair{Name: k.header, Value: "always"}))
		add(main.Split, header(Pair{Name: k.header, Value: "never"}))
	}
	if k.cookie != "" {
		cookie := func(v string) func(*Match) { return func(m *Match) { m.Cookies = []Pair{{Name: k.cookie, Value: v}} } }
		add(canary, cookie("always"))
		add(main.Split, cookie("never"))
	}
	weighted := main.Split
	if k.weight > 0 {
		mine, theirs := share, main.Split[0]
		mine.Weight, theirs.Weight = k.weight, k.total-k.weight
		weighted = []Share{theirs, mine}
	}
	add(weighted, func(*Match) {})
	return out
}

// attach finds the canary of each claim: the oldest of the same namespace. Those of other
// namespaces could take a stranger's requests, so they get none.
func (c *compiler) attach(winners, canaries []*claim) map[*claim]*claim {
	of := map[*claim]*claim{}
	if len(canaries) == 0 {
		return of
	}
	slices.SortFunc(canaries, compareClaims)
	byKey, byText := map[claimKey]*claim{}, map[written]*claim{}
	for _, k := range winners {
		byKey[k.key], byText[k.written] = k, k
	}
	for _, k := range canaries {
		main := byKey[k.key]
		if main == nil && k.key.rank < ownDefault {
			// Without the annotations of the other object the same path may mean something else.
			main = byText[k.written]
		}
		switch {
		case main == nil:
			c.warn(k.object, k.field, "no other Ingress has %s of host %s, so there is nothing to be a canary of: it gets no request", k.what(), k.key.host)
		case main.object.Namespace != k.object.Namespace:
			c.warn(k.object, k.field, "%s is in another namespace: a canary of it gets no request", main.object.ref())
		case of[main] != nil:
			c.warn(k.object, k.field, "%s of host %s has another canary, %s: this one gets no request until that goes",
				k.what(), k.key.host, of[main].object.ref())
		default:
			of[main] = k
		}
	}
	return of
}
