package ingress

import (
	"net/url"
	"strings"
)

// Request is what routes are chosen by.
type Request struct {
	// Host is as the client sent it, port and all.
	Host   string
	Path   Path
	Method string
	// Headers by their canonical names, those of net/http.
	Headers map[string][]string
	// Query is the part after the "?", as it was sent.
	Query string
}

// header returns the values of all headers of one name, as one list (RFC 9110, 5.3).
func (r Request) header(name string) (string, bool) {
	values := r.Headers[name]
	return strings.Join(values, ","), len(values) > 0
}

// query returns the first value of that name.
func (r Request) query(name string) (string, bool) {
	for pair := range strings.SplitSeq(r.Query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(key); err != nil || key != name {
			continue
		}
		if value, err := url.QueryUnescape(value); err == nil {
			return value, true
		}
	}
	return "", false
}

// cookie returns the first cookie of that name.
func (r Request) cookie(name string) (string, bool) {
	for _, line := range r.Headers["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
			if ok && strings.TrimSpace(key) == name {
				return strings.Trim(value, `"`), true
			}
		}
	}
	return "", false
}

// Matches says whether a request has everything: its host apart.
func (m Match) Matches(r Request) bool { return m.matchesPath(r.Path.Match) && m.matchesRest(r) }

func (m Match) matchesPath(path string) bool {
	switch {
	case m.Kind == PathExact:
		return path == m.Path
	case m.Kind == PathRegex:
		return m.Regex != nil && m.Regex.MatchString(path)
	}
	return hasPrefix(path, trimPrefix(m.Path))
}

func (m Match) matchesRest(r Request) bool {
	return (m.Method == "" || m.Method == r.Method) &&
		haveAll(m.Headers, r.header) && haveAll(m.Queries, r.query) && haveAll(m.Cookies, r.cookie)
}

func haveAll(pairs []Pair, get func(string) (string, bool)) bool {
	for _, p := range pairs {
		value, ok := get(p.Name)
		if p.Regex != nil {
			ok = ok && p.Regex.MatchString(value)
		} else {
			ok = ok && value == p.Value
		}
		if ok == p.Not {
			return false
		}
	}
	return true
}
