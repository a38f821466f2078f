package ingress

import (
	"reflect"
	"testing"
)

// FuzzAnnotations: whatever annotations say, the object's host and path are served, by the same
// Config each time, and so is the next object.
func FuzzAnnotations(f *testing.F) {
	for _, name := range []string{
		"proxy-body-size", "proxy-read-timeout", "rewrite-target", "use-regex", "canary", "canary-weight", "canary-by-header",
		"canary-by-header-pattern", "backend-protocol", "affinity", "auth-url", "zzz",
	} {
		f.Add(name, "8Ⱥ", "session-cookie-name", "a b")
	}
	f.Add("rewrite-target", "/$1$9$", "use-regex", "true")
	f.Add("canary", "true", "canary-by-header", "x-\xff")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		x := with(ing("x", 1, "a.example /x(.*) I x"))
		x.Annotations[annotationPrefix+name1], x.Annotations[annotationPrefix+name2] = value1, value2
		out := compile(x, ing("y", 2, "b.example / P y"))
		if again := compile(x, ing("y", 2, "b.example / P y")); !reflect.DeepEqual(again, out) {
			t.Error("compiled again it is another Config")
		}
		r := NewRouter(out.Config)
		wants(t, r, "b.example/", "y")
		if x.Annotations[annotationPrefix+"canary"] == "" {
			wants(t, r, "a.example/x(.*)", "x")
		}
		p, err := ParsePath("/x/../x(y")
		if err != nil {
			t.Fatal(err)
		}
		if found := r.Lookup(80, Request{Host: "a.example", Path: p}); found.Route != nil {
			for _, filter := range found.Route.Filters {
				if path, _, err := filter.URL.Apply(found.Route.Match, p); err == nil && path[0] != '/' {
					t.Errorf("rewritten to %q", path)
				}
			}
		}
	})
}
