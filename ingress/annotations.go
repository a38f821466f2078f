package ingress

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const annotationPrefix = "nginx.ingress.kubernetes.io/"

// options are what the annotations of an object say.
type options struct {
	settings Settings
	access   Access
	protocol *Protocol
	// rewrite is the rewrite-target, "" for none.
	rewrite                      string
	useRegex                     bool
	sslRedirect, forceRedirectTo bool
	canary                       *canary
	// refused says why no request of the object is served.
	refused string
}

// annotations reads those of one object: what cannot be read is a problem and the
// default stands.
type annotations struct {
	c    *compiler
	o    *object
	seen []string
}

// isGuard: an annotation keeps requests out. Without it the object would let in what its
// author shut out, so it is not served at all.
func isGuard(name string) bool {
	switch name {
	case "auth-type", "auth-secret", "auth-url", "auth-tls-secret", "auth-tls-verify-client":
		return true
	}
	return false
}

func (c *compiler) options(o *object) options {
	a := &annotations{c: c, o: o}
	out := options{
		settings: Settings{
			ConnectTimeout: a.seconds("proxy-connect-timeout"),
			ReadTimeout:    a.seconds("proxy-read-timeout"),
			SendTimeout:    a.seconds("proxy-send-timeout"),
			MaxBody:        a.size("proxy-body-size"),
			CookieAffinity: a.affinity(),
		},
		protocol:        a.protocol(),
		rewrite:         a.rewrite(),
		useRegex:        a.flag("use-regex", false),
		sslRedirect:     a.flag("ssl-redirect", true),
		forceRedirectTo: a.flag("force-ssl-redirect", false),
		canary:          a.canary(),
	}
	var unreadable string
	out.access, unreadable = a.access()
	out.refused = cmp.Or(unreadable, a.rest())
	return out
}

// get returns the value of an annotation, and whether it is there.
func (a *annotations) get(name string) (string, bool) {
	a.seen = append(a.seen, annotationPrefix+name)
	v, ok := a.o.Annotations[annotationPrefix+name]
	return strings.TrimSpace(v), ok
}

// bad reports a value that cannot be read.
func (a *annotations) bad(name, format string, args ...any) {
	a.c.report(a.o, annotationField(annotationPrefix+name), format, args...)
}

func annotationField(key string) string { return "metadata.annotations[" + key + "]" }

func (a *annotations) flag(name string, otherwise bool) bool {
	text, ok := a.get(name)
	if !ok {
		return otherwise
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		a.bad(name, `%q is neither "true" nor "false": %t stands`, text, otherwise)
		return otherwise
	}
	return v
}

// number reads a whole number between two bounds.
func (a *annotations) number(name string, low, high, otherwise int) int {
	text, ok := a.get(name)
	if !ok {
		return otherwise
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < low || v > high {
		a.bad(name, "%q is no whole number from %d to %d: %d stands", text, low, high, otherwise)
		return otherwise
	}
	return v
}

// seconds reads a timeout; 0 is the proxy's own.
func (a *annotations) seconds(name string) time.Duration {
	text, ok := a.get(name)
	if !ok {
		return 0
	}
	// The annotation is a number without unit; "60s" is a frequent slip with one meaning.
	v, err := strconv.Atoi(strings.TrimSuffix(text, "s"))
	if err != nil || v < 1 || v > 7*24*3600 {
		a.bad(name, "%q is no number of seconds from 1 to 604800: the default stands", text)
		return 0
	}
	return time.Duration(v) * time.Second
}

// size reads a number of bytes with k, m or g behind it; "0" is without a bound.
func (a *annotations) size(name string) int64 {
	text, ok := a.get(name)
	if !ok {
		return 0
	}
	digits := strings.TrimRight(text, "kmgKMG")
	unit, known := map[string]int64{"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[strings.ToLower(text[len(digits):])]
	v, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || !known || v < 0 || v > (1<<62)/unit:
		a.bad(name, "%q is no size such as 8m, 512k or 0 for none: the default stands", text)
		return 0
	case v == 0:
		return -1
	}
	return v * unit
}

func (a *annotations) affinity() string {
	cookie, named := a.get("session-cookie-name")
	kind, ok := a.get("affinity")
	switch {
	case !ok:
		return ""
	case kind != "cookie":
		a.bad("affinity", "%q is not known, only cookie is: clients are not kept at their endpoint", kind)
		return ""
	case !named:
		return "INGRESSCOOKIE"
	case !isToken(cookie):
		a.bad("session-cookie-name", "%q cannot be the name of a cookie: INGRESSCOOKIE stands", cookie)
		return "INGRESSCOOKIE"
	}
	return cookie
}

func (a *annotations) protocol() *Protocol {
	text, ok := a.get("backend-protocol")
	if !ok {
		return nil
	}
	protocols := map[string]Protocol{"HTTP": HTTP1, "HTTPS": HTTPS, "GRPC": H2C, "GRPCS": HTTPS}
	v, known := protocols[strings.ToUpper(text)]
	if !known {
		a.bad("backend-protocol", "%q is none of HTTP, HTTPS, GRPC and GRPCS: appProtocol of the Service port stands", text)
		return nil
	}
	return &v
}

func (a *annotations) rewrite() string {
	text, ok := a.get("rewrite-target")
	if ok && !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "$") {
		a.bad("rewrite-target", "%q begins neither with a slash nor with a group such as $1: paths are not rewritten", text)
		return ""
	}
	return text
}

// rest reports the annotations that nothing has read. It returns why the object is
// not served, "" when it is.
func (a *annotations) rest() (refused string) {
	for _, key := range slices.Sorted(maps.Keys(a.o.Annotations)) {
		name, ours := strings.CutPrefix(key, annotationPrefix)
		switch {
		case !ours || slices.Contains(a.seen, key):
		case isGuard(name):
			a.bad(name, "is not supported, and without it requests would get in that it keeps out: "+
				"the object's requests get 500 until it is removed")
			refused = fmt.Sprintf("annotation %s is not supported and keeps requests out", key)
		default:
			a.c.warn(a.o, annotationField(key), "is not supported and ignored: docs/ingress.md has those that are")
		}
	}
	return refused
}

// isToken: a name of a header or a cookie (RFC 9110, 5.6.2).
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}

// CompilePath compiles a path of kind PathRegex: RE2, anchored at its start. Fold ignores case.
func CompilePath(text string, fold bool) (*regexp.Regexp, error) {
	flags := ""
	if fold {
		flags = "(?i)"
	}
	return regexp.Compile(flags + "^(?:" + text + ")")
}
