package ingress

import (
	"errors"
	"fmt"
	"strings"
)

// Path is the path of a request in the two forms that are needed. Both say the
// same: what is matched is what the endpoint will see, whatever way of writing the
// client chose.
type Path struct {
	// Forward is what the endpoint gets, percent-encoded: dot segments are resolved,
	// runs of slashes are one slash, escapes of letters, digits and "-._~" are
	// undone, and the others are in upper case.
	Forward string
	// Match is what the paths of objects are compared with: Forward without escapes
	// but those that would change its meaning (%2F, %5C, %3B and %25).
	Match string
}

// ErrPath is the reason why a path is refused: the proxy answers 400.
var ErrPath = errors.New("path is ambiguous or malformed")

// ParsePath reads the path of a request as the client sent it, without the query.
// It refuses with ErrPath what endpoints read in different ways, so that no request can
// match one route and be served as another: NUL, broken escapes, and dot segments
// that only appear once %2F, %5C or "\" are taken for slashes or ";" for the start
// of parameters ("/a/..%2fb", "/a/..;/b"). An escaped slash elsewhere is no
// separator and stays as it is.
func ParsePath(raw string) (Path, error) {
	if raw == "" {
		raw = "/"
	}
	if raw[0] != '/' {
		return Path{}, fmt.Errorf("%w: %q does not begin with a slash", ErrPath, raw)
	}
	if isPlain(raw) {
		return Path{Forward: raw, Match: raw}, nil
	}
	forward, err := resolve(raw[1:])
	if err != nil {
		return Path{}, err
	}
	return Path{Forward: forward, Match: decode(forward)}, nil
}

// resolve returns a path, given without its first slash, in the form of Path.Forward.
func resolve(raw string) (string, error) {
	elements := make([]string, 0, 1+strings.Count(raw, "/"))
	open := false // the path ends with a slash
	for element := range strings.SplitSeq(raw, "/") {
		text, err := encode(element)
		if err != nil {
			return "", err
		}
		open = text == "" || text == "." || text == ".."
		switch {
		case text == ".." && len(elements) > 0:
			elements = elements[:len(elements)-1]
		case !open:
			elements = append(elements, text)
		}
	}
	forward := "/" + strings.Join(elements, "/")
	if open && len(elements) > 0 {
		forward += "/"
	}
	return forward, nil
}

// isPlain: nothing of the path needs a look. Nearly every request is.
func isPlain(raw string) bool {
	for i := range len(raw) {
		c := raw[i]
		slash := i > 0 && raw[i-1] == '/'
		if !isPathChar(c) && c != '/' || slash && (c == '/' || c == '.') {
			return false
		}
	}
	return true
}

// encode returns an element of a path in the form of Path.Forward.
func encode(element string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(element); i++ {
		c, plain := element[i], isPathChar(element[i])
		if c == '%' {
			v, ok := unhex(element[i+1:])
			if !ok {
				return "", fmt.Errorf("%w: %q has a %% without two hexadecimal digits", ErrPath, element)
			}
			c, plain = v, isUnreserved(v)
			i += 2
		}
		if c == 0 {
			return "", fmt.Errorf("%w: %q has a NUL", ErrPath, element)
		}
		put(&b, c, plain)
	}
	if text := b.String(); !hidesDots(text) {
		return text, nil
	}
	return "", fmt.Errorf("%w: %q hides a dot segment", ErrPath, element)
}

func put(b *strings.Builder, c byte, plain bool) {
	if plain {
		b.WriteByte(c)
		return
	}
	const digits = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(digits[c>>4])
	b.WriteByte(digits[c&15])
}

// hidesDots: there is a dot segment, for those who take an escaped slash or a
// backslash for a slash, or cut parameters off.
func hidesDots(element string) bool {
	if element == "." || element == ".." || !strings.Contains(element, ".") {
		return false
	}
	pieces := strings.NewReplacer("%2F", "/", "%5C", "/", "%3B", ";").Replace(element)
	for piece := range strings.SplitSeq(pieces, "/") {
		if name, _, _ := strings.Cut(piece, ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}

// decode returns the form of Path.Match.
func decode(forward string) string {
	if !strings.Contains(forward, "%") {
		return forward
	}
	var b strings.Builder
	for i := 0; i < len(forward); i++ {
		c := forward[i]
		if c != '%' {
			b.WriteByte(c)
			continue
		}
		v, _ := unhex(forward[i+1:])
		put(&b, v, strings.IndexByte(`/\;%`, v) < 0)
		i += 2
	}
	return b.String()
}

// unhex reads two hexadecimal digits.
func unhex(text string) (byte, bool) {
	if len(text) < 2 {
		return 0, false
	}
	var v byte
	for i := range 2 {
		c := text[i]
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | (c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			v = v<<4 | (c | 0x20 - 'a' + 10)
		default:
			return 0, false
		}
	}
	return v, true
}

// isUnreserved is the set of RFC 3986, 2.3: escapes of these mean the same as they do.
func isUnreserved(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// isPathChar is the set of RFC 3986, 3.3, pchar without escapes.
func isPathChar(c byte) bool {
	if isUnreserved(c) {
		return true
	}
	switch c {
	case '!', '$', '&', '\'', '(', ')', '*', '+', ',', ';', '=', ':', '@':
		return true
	}
	return false
}

// trimPrefix returns a path of kind PathPrefix without the slash at its end, which
// says nothing: the form that prefixes are compared in. "" is every path.
func trimPrefix(path string) string { return strings.TrimRight(path, "/") }

// hasPrefix says whether a path has a prefix in the form of trimPrefix, element by element.
func hasPrefix(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}
