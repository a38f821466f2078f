package ingress

import (
	"errors"
	"strings"
	"testing"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ raw, forward, match string }{
		{"", "/", "/"},
		{"/", "/", "/"},
		{"/foo", "/foo", "/foo"},
		{"/foo/", "/foo/", "/foo/"},
		{"/Foo", "/Foo", "/Foo"},
		// Runs of slashes and dot segments.
		{"//foo///bar//", "/foo/bar/", "/foo/bar/"},
		{"/foo/./bar", "/foo/bar", "/foo/bar"},
		{"/foo/../bar", "/bar", "/bar"},
		{"/foo/..", "/", "/"},
		{"/foo/.", "/foo/", "/foo/"},
		{"/a/b/..", "/a/", "/a/"},
		{"/../../bar", "/bar", "/bar"},
		{"/foo//../bar", "/bar", "/bar"},
		{"/.well-known/x", "/.well-known/x", "/.well-known/x"},
		{"/a..b/...", "/a..b/...", "/a..b/..."},
		// Escapes: of unreserved characters undone, of others kept, compared undone.
		{"/%66oo/%2e%2E/b%41r", "/bAr", "/bAr"},
		{"/a%20b", "/a%20b", "/a b"},
		{"/a b", "/a%20b", "/a b"},
		{"/caf%c3%a9", "/caf%C3%A9", "/café"},
		{"/café", "/caf%C3%A9", "/café"},
		{"/a%2cb,c", "/a%2Cb,c", "/a,b,c"},
		{"/a%3fb%23c", "/a%3Fb%23c", "/a?b#c"},
		// Those that would change the meaning stay as they are.
		{"/group%2fproject", "/group%2Fproject", "/group%2Fproject"},
		{"/a%5cb\\c", "/a%5Cb%5Cc", "/a%5Cb%5Cc"},
		{"/a;v=1/b%3bc", "/a;v=1/b%3Bc", "/a;v=1/b%3Bc"},
		{"/100%25", "/100%25", "/100%25"},
		{"/%252e%252e/x", "/%252e%252e/x", "/%252e%252e/x"},
		{"/a\r\n", "/a%0D%0A", "/a\r\n"},
	} {
		p, err := ParsePath(tc.raw)
		if err != nil || p.Forward != tc.forward || p.Match != tc.match {
			t.Errorf("ParsePath(%q) = %+q, %v; want %q, %q", tc.raw, p, err, tc.forward, tc.match)
		}
	}
	for _, raw := range []string{
		"*", "foo", "http://a.example/", "/%", "/%2", "/%zz", "/a%00b", "/a\x00",
		"/a/..%2fb", "/a/%2e%2e%2fb", "/a%2f..%2fb", "/a/..\\b", "/a/..%5cb", "/a/..;/b", "/a/..;x=1", "/a/.;/b", "/a/..%3b/b", "/a%2f.",
	} {
		if p, err := ParsePath(raw); !errors.Is(err, ErrPath) {
			t.Errorf("ParsePath(%q) = %+q, want it refused", raw, p)
		}
	}
}

// FuzzParsePath: what is forwarded means what was matched, to whoever reads it.
func FuzzParsePath(f *testing.F) {
	for _, raw := range []string{"/", "/a/../b", "//a/%2e", "/a%2fb", "/;/..", "/%25%32%65", "/\xff", "/a%5C.."} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := ParsePath(raw)
		if err != nil {
			return
		}
		again, err := ParsePath(p.Forward)
		if err != nil || again != p {
			t.Errorf("%q is %+q, and that is %+q, %v", raw, p, again, err)
		}
		if strings.ContainsAny(p.Forward, " ?#\\\x00\r\n") || !strings.HasPrefix(p.Forward, "/") {
			t.Errorf("%q is forwarded as %q", raw, p.Forward)
		}
		if strings.Count(p.Forward, "/") != strings.Count(p.Match, "/") {
			t.Errorf("%q has other elements when matched: %+q", raw, p)
		}
		// As a server reads it that takes all of these for slashes and cuts parameters off.
		for element := range strings.SplitSeq(strings.NewReplacer("%2F", "/", "%5C", "/", "%3B", ";").Replace(p.Forward), "/") {
			if name, _, _ := strings.Cut(element, ";"); name == "." || name == ".." {
				t.Errorf("%q is forwarded as %q, with a dot segment", raw, p.Forward)
			}
		}
	})
}

func TestNormalizeHost(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"a.example": "a.example", "A.Example": "a.example", "a.example:8080": "a.example", "a.example.": "a.example",
		"A.EXAMPLE.:80": "a.example", "a.example:": "a.example", "localhost": "localhost", "192.0.2.1:80": "192.0.2.1",
		"[fd00::1]:80": "fd00::1", "[FD00:0::1]": "fd00::1", "xn--caf-dma.example": "xn--caf-dma.example", "a_b.example": "a_b.example",
		// What is no host has none.
		"": "", ":80": "", ".": "", "a.example:80:80": "", "a.example:http": "", "fd00::1": "", "[fd00::1": "", "[fd00::1]x": "",
		"[fe80::1%25eth0]:80": "", "a.example/x": "", "user@a.example": "", "a b": "", "*.example": "", "a\x00b": "", "a,b": "a,b",
		strings.Repeat("a", 254): "",
	} {
		if got := NormalizeHost(sent); got != want {
			t.Errorf("NormalizeHost(%q) = %q, want %q", sent, got, want)
		}
	}
}

// TestRewrite is the change of paths: that of ingress-nginx and those of the Gateway API.
func TestRewrite(t *testing.T) {
	t.Parallel()
	regex := func(path string) Match {
		re, err := CompilePath(path, true)
		if err != nil {
			t.Fatal(err)
		}
		return Match{Kind: PathRegex, Path: path, Regex: re}
	}
	whole := func(path string) URLChange {
		return URLChange{HasPath: true, Path: path, Captures: strings.Contains(path, "$")}
	}
	prefix := func(path string) URLChange { return URLChange{ReplacePrefix: true, Path: path} }
	for _, tc := range []struct {
		change      URLChange
		match       Match
		sent        string
		path, query string
	}{
		{URLChange{}, Match{}, "/a%2Cb", "/a%2Cb", ""},
		{whole("/$2"), regex("/something(/|$)(.*)"), "/something", "/", ""},
		{whole("/$2"), regex("/something(/|$)(.*)"), "/something/", "/", ""},
		{whole("/$2"), regex("/something(/|$)(.*)"), "/something/new/x", "/new/x", ""},
		{whole("/$1"), regex("/a(.*)"), "/a/x", "/x", ""},
		{whole("/x?id=$1&y=2"), regex("/a/([^/]+)"), "/a/7", "/x", "id=7&y=2"},
		{whole("/$3$1"), regex("/(a)"), "/a", "/a", ""},
		{whole("/$1"), Match{Path: "/a"}, "/a/b", "/", ""},
		// Nothing of the client's path becomes a query, a fragment or a dot segment.
		{whole("/$1"), regex("/a/(.*)"), "/a/x%3Fy%23z%2F%25", "/x%3Fy%23z%2F%25", ""},
		{whole("/$1"), regex("/a/(.*)"), "/a/caf%c3%a9 b", "/caf%C3%A9%20b", ""},
		{whole("/in/$1$2/x"), regex("/a/(.)y(.)"), "/a/.y.", "/x", ""},
		{whole("/"), Match{Path: "/foo"}, "/foo/bar", "/", ""},
		{whole("/new"), Match{Path: "/foo"}, "/foo/bar", "/new", ""},
		{prefix("/xyz"), Match{Path: "/foo"}, "/foo/bar", "/xyz/bar", ""},
		{prefix("/xyz"), Match{Path: "/foo/"}, "/foo/bar", "/xyz/bar", ""},
		{prefix("/xyz/"), Match{Path: "/foo"}, "/foo/bar", "/xyz/bar", ""},
		{prefix("/xyz"), Match{Path: "/foo"}, "/foo", "/xyz", ""},
		{prefix("/xyz"), Match{Path: "/foo"}, "/foo/", "/xyz/", ""},
		{prefix("/"), Match{Path: "/foo"}, "/foo", "/", ""},
		{prefix("/"), Match{Path: "/foo"}, "/foo/bar", "/bar", ""},
		{prefix(""), Match{Path: "/a b"}, "/a%20b/c%2fd", "/c%2Fd", ""},
		{prefix("/xyz"), Match{}, "/bar", "/xyz/bar", ""},
	} {
		p, err := ParsePath(tc.sent)
		if err != nil {
			t.Fatal(err)
		}
		path, query, err := tc.change.Apply(tc.match, p)
		if err != nil || path != tc.path || query != tc.query {
			t.Errorf("%s, %+v: %s, %s, %v; want %s, %s", tc.sent, tc.change, path, query, err, tc.path, tc.query)
		}
	}
	p, _ := ParsePath("/a/%2F")
	if _, _, err := whole("/$1").Apply(regex("/a/(%2)"), p); !errors.Is(err, ErrPath) {
		t.Errorf("half an escape is rewritten: %v", err)
	}
}
