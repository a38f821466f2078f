package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/ingress"
)

// TestRetry: only requests that may be repeated go to another endpoint, and only
// when nothing of them was sent.
func TestRetry(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "POST", "PATCH"} {
		t.Run(method, func(t *testing.T) {
			l := newLab(t, Options{})
			l.serve("web", []string{endpoint(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), refusing(t)})
			l.apply([]ingress.Route{route("", "web")})
			good, bad := 0, 0
			for range 20 {
				// As if the endpoint that refuses had not been noticed yet.
				for _, target := range l.proxy.world.Load().pool(backend("web")).now.Load().targets {
					target.down.Store(0)
				}
				resp, body := l.do(method, "a.example", "/", func(r *http.Request) {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), 4
				})
				switch {
				case resp.StatusCode == 200 && (body == "body" || method == "HEAD"):
					good++
				case resp.StatusCode == 502:
					bad++
				default:
					t.Fatalf("%d %q", resp.StatusCode, body)
				}
			}
			if isIdempotent(method) && bad > 0 {
				t.Errorf("%d of 20 failed", bad)
			}
			if !isIdempotent(method) && (bad == 0 || good == 0) {
				t.Errorf("%d good, %d failed: want some of both", good, bad)
			}
		})
	}
}

// TestNoRetryInFlight: a request that an endpoint has taken and not answered is not
// sent again.
func TestNoRetryInFlight(t *testing.T) {
	l := newLab(t, Options{})
	var seen atomic.Int64
	cut := func(http.ResponseWriter, *http.Request) {
		seen.Add(1)
		panic(http.ErrAbortHandler)
	}
	l.serve("web", []string{endpoint(t, cut), endpoint(t, cut)})
	l.apply([]ingress.Route{route("", "web")})
	for _, method := range []string{"GET", "POST"} {
		seen.Store(0)
		resp, _ := l.do(method, "a.example", "/")
		if resp.StatusCode != 502 || seen.Load() != 1 {
			t.Errorf("%s: %d, the endpoints saw it %d times", method, resp.StatusCode, seen.Load())
		}
	}
}

// TestSkipped: an endpoint that refuses is left alone for a moment.
func TestSkipped(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("web", []string{endpoint(t, says("up")), refusing(t)})
	l.apply([]ingress.Route{route("", "web")})
	failed := 0
	for range 50 {
		if resp, _ := l.do("POST", "a.example", "/"); resp.StatusCode != 200 {
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d of 50 went to the endpoint that refuses", failed)
	}
	l.serve("web", []string{refusing(t)})
	begun := time.Now()
	if resp, body := l.do("GET", "a.example", "/"); resp.StatusCode != 502 || time.Since(begun) > time.Second {
		t.Errorf("all refuse: %d %q", resp.StatusCode, body)
	}
}

// TestExternalName is field fault 111: an alias works by its name, as backend of a
// rule and as default, and changes of its kind are seen at once.
func TestExternalName(t *testing.T) {
	l := newLab(t, Options{})
	at := netip.MustParseAddrPort(endpoint(t, says("outside")))
	inside := endpoint(t, says("inside"))
	alias := func(name string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, name
			s.Spec.Ports[0].TargetPort = intstr.FromInt32(int32(at.Port()))
		}
	}
	l.apply([]ingress.Route{route("a.example", "web"), route("", "web")})
	want := func(what string, status int, body string) {
		t.Helper()
		for _, host := range []string{"a.example", "other.example"} {
			begun := time.Now()
			resp, got := l.do("GET", host, "/")
			if resp.StatusCode != status || body != "" && got != body || time.Since(begun) > time.Second {
				t.Errorf("%s, %s: %d %q after %v", what, host, resp.StatusCode, got, time.Since(begun))
			}
		}
	}
	l.serve("web", nil, alias("localhost"))
	want("alias", 200, "outside")
	l.serve("web", []string{inside})
	want("no alias any more", 200, "inside")
	l.serve("web", nil, alias("localhost."))
	want("alias again", 200, "outside")
	l.serve("web", nil)
	want("no endpoint", 503, "")
	l.serve("web", []string{inside}, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	want("headless", 200, "inside")
}

// TestBalance: every endpoint has its share, and one that is slow has fewer.
func TestBalance(t *testing.T) {
	l := newLab(t, Options{})
	var ats []string
	for i := range 4 {
		ats = append(ats, endpoint(t, says(fmt.Sprint(i))))
	}
	l.serve("web", ats)
	l.apply([]ingress.Route{route("", "web")})
	counts := map[string]int{}
	for range 400 {
		_, body := l.do("GET", "a.example", "/")
		counts[body]++
	}
	for i := range 4 {
		if n := counts[fmt.Sprint(i)]; n < 50 || n > 160 {
			t.Errorf("endpoint %d had %d of 400", i, n)
		}
	}
}

// TestLeastPending: of two, the one with fewer requests is chosen.
func TestLeastPending(t *testing.T) {
	busy, idle := &target{at: "busy"}, &target{at: "idle"}
	busy.pending.Store(10)
	set := &targetSet{targets: []*target{busy, idle}}
	got := map[*target]int{}
	for range 1000 {
		got[set.least(wish{}, time.Now())]++
	}
	// Both draws are the busy one in a quarter of the cases.
	if got[busy] < 150 || got[busy] > 350 {
		t.Errorf("the busy one had %d of 1000", got[busy])
	}
}

// TestClientAffinity: a client stays at its endpoint when others are added, moves
// when its own goes, and another proxy sends it to the same one.
func TestClientAffinity(t *testing.T) {
	var a, b pool
	set := func(p *pool, n int) *targetSet {
		var ats []string
		for i := range n {
			ats = append(ats, fmt.Sprintf("10.244.0.%d:80", i+1))
		}
		p.become(ats, targetSet{affinity: time.Hour}, newMetrics())
		return p.now.Load()
	}
	now := time.Unix(1e9, 0)
	client := func(i int) wish { return wish{client: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})} }
	chosen := map[int]string{}
	counts := map[string]int{}
	for i := range 200 {
		chosen[i] = a.pick(set(&a, 4), client(i), now).at
		counts[chosen[i]]++
		if other := b.pick(set(&b, 4), client(i), now).at; other != chosen[i] {
			t.Fatalf("client %d: %s, and %s after a restart", i, chosen[i], other)
		}
	}
	for at, n := range counts {
		if n < 25 {
			t.Errorf("%s has %d of 200 clients", at, n)
		}
	}
	for i := range 200 {
		if at := a.pick(set(&a, 5), client(i), now).at; at != chosen[i] {
			t.Errorf("client %d went from %s to %s when an endpoint was added", i, chosen[i], at)
		}
	}
	moved := 0
	later := now.Add(2 * time.Hour)
	for i := range 200 {
		if a.pick(set(&a, 5), client(i), later).at != chosen[i] {
			moved++
		}
	}
	if moved == 0 || moved > 80 {
		t.Errorf("%d of 200 clients go elsewhere after the timeout, want about 40", moved)
	}
	for i := range 200 {
		if at := a.pick(set(&a, 1), client(i), later).at; at != "10.244.0.1:80" {
			t.Errorf("client %d went to %s, which is gone", i, at)
		}
	}
}

// TestCookieAffinity: a cookie keeps a client at its endpoint while that is there.
func TestCookieAffinity(t *testing.T) {
	l := newLab(t, Options{})
	a, b := endpoint(t, says("a")), endpoint(t, says("b"))
	l.serve("web", []string{a, b})
	l.apply([]ingress.Route{route("", "web", func(r *ingress.Route) { r.Settings.CookieAffinity = "stay" })})
	resp, first := l.do("GET", "a.example", "/")
	cookies := resp.Cookies()
	if len(cookies) != 1 || cookies[0].Name != "stay" || !cookies[0].HttpOnly || strings.Contains(cookies[0].Value, ".") {
		t.Fatalf("cookies: %v", cookies)
	}
	with := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "stay", Value: cookies[0].Value}) }
	for range 20 {
		resp, body := l.do("GET", "a.example", "/", with)
		if body != first || len(resp.Cookies()) > 0 {
			t.Errorf("%q, cookies %v", body, resp.Cookies())
		}
	}
	rest := map[string]string{"a": b, "b": a}[first]
	l.serve("web", []string{rest})
	if resp, body := l.do("GET", "a.example", "/", with); resp.StatusCode != 200 || body == first || len(resp.Cookies()) != 1 {
		t.Errorf("after its endpoint went: %d %q %v", resp.StatusCode, body, resp.Cookies())
	}
}

// TestConnectTimeout: an endpoint that does not answer at all is given up soon.
func TestConnectTimeout(t *testing.T) {
	l := newLab(t, Options{ConnectTimeout: 200 * time.Millisecond})
	// A listener whose backlog is full takes no more.
	full, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	shrink(t, full)
	l.serve("web", []string{full.Addr().String()})
	l.apply([]ingress.Route{route("", "web")})
	begun := time.Now()
	resp, body := l.do("GET", "a.example", "/")
	if resp.StatusCode != 502 && resp.StatusCode != 504 || time.Since(begun) > 3*time.Second {
		t.Errorf("%d %q after %v", resp.StatusCode, body, time.Since(begun))
	}
}

// shrink makes a listener's backlog as short as may be, and fills it.
func shrink(t *testing.T, ln net.Listener) {
	t.Helper()
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		d := net.Dialer{Timeout: 100 * time.Millisecond}
		if c, err := d.Dial("tcp", ln.Addr().String()); err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
}
