package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// TestBackendThatIsTheIngress: a request that comes back is refused after a few turns,
// whatever the client and the filters say of the count.
func TestBackendThatIsTheIngress(t *testing.T) {
	forget := func(r *ingress.Route) {
		r.Filters = []ingress.Filter{{Kind: ingress.RequestHeaders, Remove: []string{"CDN-Loop"}}}
	}
	for _, tt := range []struct {
		name   string
		change func(*ingress.Route)
		header http.Header
	}{
		{"plain", func(*ingress.Route) {}, nil},
		{"a filter removes the count", forget, nil},
		{"the client has it removed", func(*ingress.Route) {}, http.Header{"Connection": {"CDN-Loop"}, "Cdn-Loop": {"other; v=1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, Options{})
			l.apply([]ingress.Route{route("", "web", tt.change)})
			l.serve("web", []string{l.addr(80)})
			resp, body := l.do("GET", "a.example", "/", func(r *http.Request) {
				for name, values := range tt.header {
					r.Header[name] = values
				}
			})
			if resp.StatusCode != http.StatusLoopDetected || !strings.Contains(body, "leads to this ingress") {
				t.Errorf("answer %d %q, want 508", resp.StatusCode, body)
			}
		})
	}
}

// TestMirrorThatIsTheIngress: copies of copies come to an end.
func TestMirrorThatIsTheIngress(t *testing.T) {
	copies := make(chan string, 1000)
	l := newLab(t, Options{})
	l.serve("web", []string{endpoint(t, func(_ http.ResponseWriter, r *http.Request) { copies <- r.Header.Get("CDN-Loop") })})
	back := backend("back")
	l.apply([]ingress.Route{route("", "web", func(r *ingress.Route) {
		r.Filters = []ingress.Filter{{Kind: ingress.Mirror, Mirror: &back, MirrorPercent: 100}}
	})})
	l.serve("back", []string{l.addr(80)})
	if resp, body := l.do("GET", "a.example", "/"); resp.StatusCode != http.StatusOK {
		t.Fatalf("answer %d %q", resp.StatusCode, body)
	}
	within(t, 10*time.Second, "the copy that is refused", func() bool {
		return len(copies) == mostPasses && l.proxy.mirrors.Load() == 0
	})
}
