package ingress

import "testing"

// fault22 are the objects of kubernetes/ingress-nginx#6463, #9405 and #10631.
func TestPathRules(t *testing.T) {
	t.Parallel()
	out := compile(
		ing("one", 1, "a.example / P root", "a.example / E home", "a.example /foo/ P foo", "a.example /foo/bar E bar", "a.example /aaa/bbb P ab"),
		ing("two", 2, "a.example /foo/bar P barp"),
	)
	wantProblems(t, out)
	wants(t, NewRouter(out.Config),
		"a.example/", "home", "a.example/?q=1", "home",
		"a.example/foo", "foo", "a.example/foo/", "foo", "a.example/foo/x", "foo",
		"a.example/foobar", "root",
		"a.example/foo/bar", "bar",
		"a.example/foo/bar/", "barp", "a.example/foo/bar/z", "barp",
		"a.example/aaa/bbbccc", "root", "a.example/aaa/bbb/ccc", "ab", "a.example/AAA/bbb", "root",
	)
}
