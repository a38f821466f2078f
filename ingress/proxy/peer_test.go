package proxy

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/ingress"
)

// headers is an endpoint that says which headers came.
func headers(w http.ResponseWriter, r *http.Request) {
	h := map[string][]string{"Host": {r.Host}}
	for name, values := range r.Header {
		h[name] = values
	}
	_ = json.NewEncoder(w).Encode(h)
}

// TestTrustedPeers: what clients say of clients is believed of trusted proxies alone.
func TestTrustedPeers(t *testing.T) {
	forged := map[string]string{
		"X-Forwarded-For": "203.0.113.1, 198.51.100.2", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "forged.example",
		"X-Forwarded-Port": "1", "X-Real-IP": "203.0.113.1", "Forwarded": "for=203.0.113.1", "X-Forwarded-Prefix": "/x",
		"X_Forwarded_For": "203.0.113.9", "X-Forwarded_Proto": "https", "X-Scheme": "https",
	}
	ours := map[string][]string{
		"Host": {"a.example"}, "X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"a.example"},
		"X-Forwarded-Port": {"80"}, "X-Real-Ip": {"127.0.0.1"}, "Forwarded": {`for=127.0.0.1;host="a.example";proto=http`},
		"Cdn-Loop": {"toyproxy"},
	}
	believed := map[string][]string{
		"Host": {"a.example"}, "X-Forwarded-For": {"203.0.113.1, 198.51.100.2, 127.0.0.1"}, "X-Forwarded-Proto": {"https"},
		"X-Forwarded-Host": {"forged.example"}, "X-Forwarded-Port": {"1"}, "X-Real-Ip": {"198.51.100.2"},
		"Forwarded": {`for=203.0.113.1, for=127.0.0.1;host="a.example";proto=http`}, "X-Forwarded-Prefix": {"/x"},
		"X_forwarded_for": {"203.0.113.9"}, "X-Forwarded_proto": {"https"}, "X-Scheme": {"https"},
		"Cdn-Loop": {"toyproxy"},
	}
	for _, tt := range []struct {
		name    string
		trusted []netip.Prefix
		send    map[string]string
		want    map[string][]string
	}{
		{"nobody is trusted", nil, forged, ours},
		{"another range is trusted", []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, forged, ours},
		{"the peer is trusted", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, forged, believed},
		{"nothing was said", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil, ours},
		{"dropped as hop-by-hop", nil, map[string]string{"Connection": "X-Forwarded-For, X-Real-Ip"}, ours},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, Options{Trusted: tt.trusted})
			l.serve("web", []string{endpoint(t, headers)})
			l.apply([]ingress.Route{route("", "web")})
			_, body := l.do("GET", "a.example", "/", func(r *http.Request) {
				for name, value := range tt.send {
					r.Header[name] = []string{value}
				}
			})
			var got map[string][]string
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			delete(got, "Accept-Encoding")
			delete(got, "User-Agent")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("headers at the endpoint (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClientOf(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct{ peer, chain, want string }{
		{"192.0.2.1", "203.0.113.1", "192.0.2.1"},
		{"10.0.0.1", "203.0.113.1", "203.0.113.1"},
		{"10.0.0.1", "1.1.1.1, 203.0.113.1, 10.0.0.2", "203.0.113.1"},
		{"10.0.0.1", "1.1.1.1, nonsense, 10.0.0.2", "10.0.0.2"},
		{"10.0.0.1", "", "10.0.0.1"},
		{"fd00::1", "[2001:db8::5]", "2001:db8::5"},
		{"fd00::1", "::ffff:203.0.113.7", "203.0.113.7"},
	} {
		got := clientOf(netip.MustParseAddr(tt.peer), http.Header{"X-Forwarded-For": {tt.chain}}, trusted)
		if got.String() != tt.want {
			t.Errorf("peer %s, %q: %s, want %s", tt.peer, tt.chain, got, tt.want)
		}
	}
}
