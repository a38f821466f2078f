package proxy

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/toyproxy/toyproxy/ingress"
)

// TestAccess: clients that are not let in get 403, before they are redirected or served. What
// they say of themselves counts when a trusted proxy says it.
func TestAccess(t *testing.T) {
	loopback, documentation := netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("203.0.113.0/24")
	only := func(ranges ...netip.Prefix) func(*ingress.Route) {
		return func(r *ingress.Route) { r.Access.Allow = ranges }
	}
	redirect := func(r *ingress.Route) { r.Settings.RedirectTLS = true }
	for _, tt := range []struct {
		host    string
		trusted []netip.Prefix
		status  int
	}{
		{"open.example", nil, 200},
		{"near.example", nil, 200},
		{"far.example", nil, 403},
		{"far-tls.example", nil, 403},
		{"near.example", []netip.Prefix{loopback}, 403},
		{"far.example", []netip.Prefix{loopback}, 200},
	} {
		l := newLab(t, Options{Trusted: tt.trusted})
		l.serve("web", []string{endpoint(t, says("web"))})
		l.apply([]ingress.Route{route("open.example", "web"), route("near.example", "web", only(loopback)),
			route("far.example", "web", only(documentation)), route("far-tls.example", "web", only(documentation), redirect)})
		resp, _ := l.do("GET", tt.host, "/", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "203.0.113.7") })
		if resp.StatusCode != tt.status {
			t.Errorf("%s, trusted %v: %d, want %d", tt.host, tt.trusted, resp.StatusCode, tt.status)
		}
	}
}

// TestRedirectLoop: behind a trusted proxy that ends TLS nobody is redirected to where he is already.
func TestRedirectLoop(t *testing.T) {
	for _, tt := range []struct {
		trusted []netip.Prefix
		proto   string
		status  int
	}{
		{nil, "", 308},
		{nil, "https", 308},
		{[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "http", 308},
		{[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "https", 200},
	} {
		l := newLab(t, Options{Trusted: tt.trusted})
		l.serve("web", []string{endpoint(t, says("web"))})
		l.apply([]ingress.Route{route("a.example", "web", func(r *ingress.Route) { r.Settings.RedirectTLS = true })})
		resp, _ := l.do("GET", "a.example", "/", func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", tt.proto) })
		if resp.StatusCode != tt.status {
			t.Errorf("trusted %v, told of %q: %d, want %d", tt.trusted, tt.proto, resp.StatusCode, tt.status)
		}
	}
}
