package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

func TestRoutes(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("web", []string{endpoint(t, says("web"))})
	l.serve("empty", nil)
	l.apply([]ingress.Route{route("a.example", "web"), route("empty.example", "empty"), route("none.example", "none")})
	tests := []struct {
		host   string
		status int
		body   string
	}{
		{"a.example", 200, "web"},
		{"A.Example:80", 200, "web"},
		{"empty.example", 503, "503 Service Unavailable: no endpoint is available for this service\n"},
		{"none.example", 503, "503 Service Unavailable: no endpoint is available for this service\n"},
		{"other.example", 404, "404 Not Found: no rule for this host and path\n"},
	}
	for _, tt := range tests {
		begun := time.Now()
		resp, body := l.do("GET", tt.host, "/x")
		if resp.StatusCode != tt.status || body != tt.body {
			t.Errorf("%s: %d %q, want %d %q", tt.host, resp.StatusCode, body, tt.status, tt.body)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s: answered after %v", tt.host, took)
		}
	}
	resp, body := l.do("GET", "none.example", "/", func(r *http.Request) { r.Header.Set("Accept", "application/json") })
	if resp.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(body, `{"status":503,`) {
		t.Errorf("for JSON: %s %q", resp.Header.Get("Content-Type"), body)
	}
}
