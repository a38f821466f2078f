package ingress

import (
	"fmt"
	"strings"
)

// Apply returns the path that an endpoint gets after a change of the URL, encoded, and
// what comes before the query of the request (rewrite-target: /x?id=$1). The path is that
// of the request where the change leaves it. ErrPath: what comes out is no path.
func (u URLChange) Apply(m Match, p Path) (path, query string, err error) {
	switch {
	case u.ReplacePrefix:
		path = strings.TrimRight(u.Path, "/") + afterElements(p.Forward, strings.Count(trimPrefix(m.Path), "/"))
	case u.HasPath || u.Captures:
		text := u.Path
		if u.Captures {
			text = expand(text, m, p)
		}
		path, query, _ = strings.Cut(text, "?")
		query = escapeQuery(query)
	default:
		return p.Forward, "", nil
	}
	if path != "" && path[0] != '/' {
		path = "/" + path
	}
	out, err := ParsePath(path)
	if err != nil {
		return "", "", fmt.Errorf("rewritten path: %w", err)
	}
	return out.Forward, query, nil
}

// afterElements returns what follows the first n elements of a path.
func afterElements(path string, n int) string {
	for ; n > 0 && path != ""; n-- {
		next := strings.IndexByte(path[1:], '/')
		if next < 0 {
			return ""
		}
		path = path[1+next:]
	}
	return path
}

// expand puts the groups that matched in the place of $1 to $9. Groups are encoded
// so that nothing of a client's path can start a query or a fragment.
func expand(text string, m Match, p Path) string {
	var groups []string
	if m.Regex != nil {
		groups = m.Regex.FindStringSubmatch(p.Match)
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) || text[i+1] < '1' || text[i+1] > '9' {
			b.WriteByte(text[i])
			continue
		}
		i++
		if n := int(text[i] - '0'); n < len(groups) {
			escape(&b, groups[n])
		}
	}
	return b.String()
}

// escape writes text in the form of Path.Match as a part of a URL.
func escape(b *strings.Builder, text string) {
	for i := range len(text) {
		put(b, text[i], isPathChar(text[i]) || text[i] == '/' || text[i] == '%')
	}
}

// escapeQuery keeps what may stand in a query, and escapes the rest.
func escapeQuery(text string) string {
	var b strings.Builder
	for i := range len(text) {
		put(&b, text[i], isPathChar(text[i]) || strings.IndexByte("/?%", text[i]) >= 0)
	}
	return b.String()
}
