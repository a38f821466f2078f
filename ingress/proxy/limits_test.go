package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// TestSlowloris: 500 connections that send their heads letter by letter, and some
// that hold back a body or a TLS handshake, keep nobody else waiting, and are ended.
func TestSlowloris(t *testing.T) {
	l := newLab(t, Options{HeaderTimeout: time.Second})
	l.serve("web", []string{endpoint(t, says("web"))})
	l.apply([]ingress.Route{route("", "web")})
	var slow []net.Conn
	open := func(port uint16, text string) {
		c, err := net.Dial("tcp", l.addr(port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, text)
		slow = append(slow, c)
	}
	for range 450 {
		open(80, "GET / HTTP/1.1\r\nHost: a.example\r\nX-Slow: ")
	}
	for range 50 {
		open(443, "\x16\x03")
	}
	begun := time.Now()
	for i := range 50 {
		at := time.Now()
		if resp, body := l.do("GET", "a.example", "/"); resp.StatusCode != 200 || body != "web" || time.Since(at) > time.Second {
			t.Fatalf("request %d beside slow clients: %d %q after %v", i, resp.StatusCode, body, time.Since(at))
		}
		for _, c := range slow[:10] {
			_, _ = io.WriteString(c, "x") // they are never quite silent
		}
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("50 requests beside slow clients took %v", took)
	}
	within(t, 10*time.Second, "slow clients are ended", func() bool { return l.proxy.connections.Load() < 20 })
}

func TestLimits(t *testing.T) {
	l := newLab(t, Options{MaxHeaderBytes: 4 << 10, MaxBody: 1000})
	l.serve("web", []string{endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})})
	settings := func(s ingress.Settings) func(*ingress.Route) {
		return func(r *ingress.Route) { r.Settings = s }
	}
	l.apply([]ingress.Route{route("small.example", "web", settings(ingress.Settings{MaxBody: 10})),
		route("large.example", "web", settings(ingress.Settings{MaxBody: -1})), route("", "web")})
	tests := []struct {
		name, host string
		header     int
		body       int
		chunked    bool
		status     int
	}{
		{"small head", "a.example", 1000, 0, false, 200},
		{"large head", "a.example", 20000, 0, false, 431},
		{"body as long as may be", "a.example", 0, 1000, false, 200},
		{"body longer than may be", "a.example", 0, 1001, false, 413},
		{"chunked body longer than may be", "a.example", 0, 100_000, true, 413},
		{"a route's own limit", "small.example", 0, 11, false, 413},
		{"a route without limit", "large.example", 0, 1_000_000, true, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, body := l.do("POST", tt.host, "/", func(r *http.Request) {
				r.Header.Set("X-Long", strings.Repeat("x", tt.header))
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", tt.body))), int64(tt.body)
				if tt.chunked {
					r.ContentLength = -1
				}
			})
			if resp.StatusCode != tt.status || tt.status == 200 && body != fmt.Sprint(tt.body, " <nil>") {
				t.Errorf("%d %q, want %d", resp.StatusCode, body, tt.status)
			}
			if tt.status == 413 && !resp.Close {
				t.Error("the connection may be used again, though the body was not read")
			}
		})
	}
}

// TestSlowBody: a client that stops in the middle of a body is told so, and the
// endpoint is let go.
func TestSlowBody(t *testing.T) {
	l := newLab(t, Options{BodyTimeout: 200 * time.Millisecond})
	gone := make(chan error, 1)
	l.serve("web", []string{endpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		gone <- err
	})})
	l.apply([]ingress.Route{route("", "web")})
	c, err := net.Dial("tcp", l.addr(80))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\nhalf")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%v, %v", resp, err)
	}
	select {
	case err := <-gone:
		if err == nil {
			t.Error("the endpoint took the half body for a whole one")
		}
	case <-time.After(5 * time.Second):
		t.Error("the endpoint waits on")
	}
}

func TestMaxConnections(t *testing.T) {
	l := newLab(t, Options{MaxConnections: 3})
	l.apply(nil)
	var open []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", l.addr(80))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	within(t, 5*time.Second, "three connections", func() bool { return l.proxy.connections.Load() == 3 })
	c, err := net.Dial("tcp", l.addr(80))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if n, err := c.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Errorf("a fourth connection: %d bytes, %v", n, err)
	}
	open[0].Close()
	within(t, 5*time.Second, "room for another", func() bool { return l.proxy.connections.Load() < 3 })
	if resp, _ := l.do("GET", "a.example", "/", func(r *http.Request) { r.Close = true }); resp.StatusCode != 404 {
		t.Errorf("after one went: %d", resp.StatusCode)
	}
}

func TestTimeouts(t *testing.T) {
	l := newLab(t, Options{})
	silent := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
	l.serve("web", []string{endpoint(t, silent)})
	const short = 100 * time.Millisecond
	for name, s := range map[string]ingress.Settings{
		"read": {ReadTimeout: short}, "request": {RequestTimeout: short}, "backend": {BackendTimeout: short},
	} {
		t.Run(name, func(t *testing.T) {
			l.apply([]ingress.Route{route("", "web", func(r *ingress.Route) { r.Settings = s })})
			begun := time.Now()
			resp, body := l.do("GET", "a.example", "/")
			if resp.StatusCode != 504 || time.Since(begun) > 3*time.Second {
				t.Errorf("%d %q after %v", resp.StatusCode, body, time.Since(begun))
			}
			// What has begun cannot become an error any more: it is cut, so that nobody takes it for whole.
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+l.addr(80)+"/half", nil)
			half, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer half.Body.Close()
			if text, err := io.ReadAll(half.Body); err == nil || string(text) != "half" {
				t.Errorf("half an answer: %q, %v", text, err)
			}
		})
	}
}
