package ingress

import (
	"fmt"
	"strings"
)

// String returns "Ingress default/web, spec.rules[0].http.paths[1]: host a.example, path /foo".
func (r *Route) String() string {
	return fmt.Sprintf("%s, %s: %s, %s", r.Object, r.Field, r.hosts(), r.Match)
}

// hosts returns "host a.example or b.example", or "every host".
func (r *Route) hosts() string {
	if len(r.Hosts) == 0 {
		return "every host"
	}
	names := make([]string, len(r.Hosts))
	for i, h := range r.Hosts {
		names[i] = h.String()
	}
	return "host " + strings.Join(names, " or ")
}

// String returns "path /foo and below, header X-Canary: always".
func (m Match) String() string {
	var parts []string
	switch prefix := trimPrefix(m.Path); {
	case m.Kind == PathExact:
		parts = append(parts, "exact path "+m.Path)
	case m.Kind == PathRegex:
		parts = append(parts, "regular expression "+m.Path)
	case prefix == "":
		parts = append(parts, "every path")
	default:
		parts = append(parts, "path "+prefix+" and below")
	}
	if m.Method != "" {
		parts = append(parts, "method "+m.Method)
	}
	for _, p := range m.Headers {
		parts = append(parts, "header "+p.String())
	}
	for _, p := range m.Queries {
		parts = append(parts, "query "+p.String())
	}
	for _, p := range m.Cookies {
		parts = append(parts, "cookie "+p.String())
	}
	return strings.Join(parts, ", ")
}

// String returns "name: value", "name ~ expression", either after "not".
func (p Pair) String() string {
	text := p.Name + ": " + p.Value
	if p.Regex != nil {
		text = p.Name + " ~ " + p.Regex.String()
	}
	if p.Not {
		text = "not " + text
	}
	return text
}

// Why says in a sentence what has the request, or why nothing has.
func (f Found) Why() string {
	host := f.Host
	if host == "" {
		host = "(none, or malformed)"
	}
	switch {
	case f.Listener == nil:
		return fmt.Sprintf("no listener covers host %s: 404", host)
	case f.Route == nil:
		return fmt.Sprintf("no rule has host %s with this path, and there is no default backend: 404", host)
	}
	return f.Route.String()
}

// String returns "HTTP", "HTTP/2 without TLS" or "HTTPS".
func (p Protocol) String() string { return [...]string{"HTTP", "HTTP/2 without TLS", "HTTPS"}[p] }
