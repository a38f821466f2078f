package ingress

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// TestUpstreamConformance plays the cases of kubernetes-sigs/ingress-controller-conformance (path rules, host
// rules, ingress class, default backend; release 1.19 and later) on the table of routes. Its cases of load
// balancing and of what an endpoint is sent are those of package proxy.
func TestUpstreamConformance(t *testing.T) {
	t.Parallel()
	out := compile(
		ing("path-rules", 1, "exact /foo E exact",
			"prefix /foo P foo", "prefix /aaa/bbb P aaa-bbb", "prefix /aaa P aaa",
			"mixed /foo P foo", "mixed /foo E exact",
			"slash /aaa/bbb/ P aaa-bbb", "slash /foo/ E exact"),
		withTLS(ing("host-rules", 1, "*.foo.com / P wild", "foo.bar.com / P bar:http"), "conformance-tls", "foo.bar.com"))
	wants(t, NewRouter(out.Config),
		// Exact: with every letter and slash.
		"exact/foo", "exact", "exact/foo/", "404", "exact/FOO", "404", "exact/bar", "404",
		// Prefix: by elements, the longest first, the slash at the end says nothing.
		"prefix/foo", "foo", "prefix/foo/", "foo", "prefix/FOO", "404",
		"prefix/aaa/bbb", "aaa-bbb", "prefix/aaa/bbb/ccc", "aaa-bbb", "prefix/aaa/ccc", "aaa", "prefix/aaaccc", "404",
		// Exact before Prefix; a slash at the end of the rule.
		"mixed/foo", "exact",
		"slash/aaa/bbb", "aaa-bbb", "slash/aaa/bbb/", "aaa-bbb", "slash/foo", "404",
		// Hosts: the name itself, or exactly one label in the place of the star.
		"foo.bar.com/", "bar", "subdomain.bar.com/", "404", "bar.foo.com/", "wild", "baz.bar.foo.com/", "404", "foo.com/", "404")

	// A class that is not there: no status is written, nothing is served.
	o := ing("class", 1, "ingress-class / P s")
	o.Spec.IngressClassName = new("some-other")
	out = Compile(Input{Ingresses: []*networkingv1.Ingress{o}, Classes: []*networkingv1.IngressClass{class("ours", ControllerName, 1, true)}})
	if len(out.Served) != 0 || get(t, NewRouter(out.Config), "ingress-class/") != "404" {
		t.Errorf("an object of a class that is not there is served: %v", out.Served)
	}

	// An object without rules has everything.
	o = ing("default-backend", 1)
	o.Spec.DefaultBackend = backend("echo")
	r := NewRouter(compile(o).Config)
	wants(t, r, "my-host/", "echo", "my-host/sub-path", "echo", "some-host/", "echo", "/resource", "echo", "some-host/resource", "echo")
	p, err := ParsePath("/resource")
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
		if found := r.Lookup(80, Request{Host: "some-host", Path: p, Method: method}); found.Route == nil {
			t.Errorf("%s has no route: %s", method, found.Why())
		}
	}
}
