package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/toyproxy/toyproxy/ingress"
)

// TestStreaming: each part of a body passes at once in both directions, and so does
// what endpoints say before their answer.
func TestStreaming(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("web", []string{endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		_ = c.Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, lines.Text())
			_ = c.Flush()
		}
		w.Header().Set("X-Sum", r.Trailer.Get("X-Ask"))
	})})
	l.apply([]ingress.Route{route("", "web")})
	for name, rt := range protocols() {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(rt.CloseIdleConnections)
			url := "http://" + l.addr(80)
			if name == "HTTP/2.0" {
				url = "https://" + l.addr(443)
			}
			hints := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				if code == http.StatusEarlyHints && h.Get("Link") == "</style.css>" {
					hints++
				}
				return nil
			}})
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			in, out := io.Pipe()
			r, _ := http.NewRequestWithContext(ctx, "POST", url, in)
			r.Trailer = http.Header{"X-Ask": nil}
			resp, err := rt.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			for i := range 3 {
				fmt.Fprintf(out, "line %d\n", i)
				if got, err := lines.ReadString('\n'); err != nil || got != fmt.Sprintf("line %d\n", i) {
					t.Fatalf("%q, %v", got, err)
				}
			}
			r.Trailer.Set("X-Ask", "sum")
			out.Close()
			if _, err := io.ReadAll(lines); err != nil || resp.Trailer.Get("X-Sum") != "sum" || hints != 1 {
				t.Errorf("trailer %v, %d hints, %v", resp.Trailer, hints, err)
			}
		})
	}
}

// TestDrain: at the end, ports close at once, requests and upgraded connections have
// their time, and health says so.
func TestDrain(t *testing.T) {
	l := newLab(t, Options{DrainTimeout: 2 * time.Second})
	asked, release := make(chan bool), make(chan bool)
	l.serve("web", []string{endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- true
		<-release
		fmt.Fprint(w, "whole")
	})})
	l.serve("sockets", []string{endpoint(t, webSocketEcho)})
	l.apply([]ingress.Route{route("web.example", "web"), route("sockets.example", "sockets")})
	health := func() int {
		w := httptest.NewRecorder()
		l.proxy.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
		return w.Code
	}
	if health() != 503 {
		t.Error("ready before it was said")
	}
	l.proxy.Ready()
	if health() != 200 {
		t.Error("not ready")
	}
	socket, _, err := websocket.Dial(t.Context(), "ws://"+l.addr(80)+"/", &websocket.DialOptions{Host: "sockets.example"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	answers := make(chan string, 1)
	go func() {
		resp, body := l.do("GET", "web.example", "/")
		answers <- fmt.Sprint(resp.StatusCode, body)
	}()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { l.proxy.Run(ctx, 0); close(ended) }()
	cancel()
	within(t, time.Second, "the port is closed", func() bool {
		c, err := net.Dial("tcp", l.addr(80))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if health() != 503 {
		t.Error("healthy while it drains")
	}
	if err := talk(t.Context(), socket, "still here"); err != nil {
		t.Errorf("upgraded connection while it drains: %v", err)
	}
	close(release)
	if got := <-answers; got != "200whole" {
		t.Errorf("request in flight: %s", got)
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the upgraded connection is waited for without end")
	}
	if err := talk(t.Context(), socket, "over"); err == nil {
		t.Error("the upgraded connection goes on for ever")
	}
}

// TestPorts: ports of a Config come and go, and others do not notice.
func TestPorts(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("web", []string{endpoint(t, says("web"))})
	port := func(n uint16) ingress.Port {
		return ingress.Port{Number: n, Listeners: []ingress.Listener{{Routes: []ingress.Route{route("", "web")}}}}
	}
	apply := func(numbers ...uint16) {
		var c ingress.Config
		for _, n := range numbers {
			c.Ports = append(c.Ports, port(n))
		}
		if err := l.proxy.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(n uint16) bool {
		resp, err := http.Get("http://" + l.addr(n))
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == 200
	}
	apply(80)
	apply(80, 8080)
	if !answers(80) || !answers(8080) {
		t.Error("a port does not answer")
	}
	apply(80)
	within(t, 5*time.Second, "port 8080 is closed", func() bool { return !answers(8080) })
	if !answers(80) {
		t.Error("port 80 does not answer any more")
	}
	l.proxy.opts.Listen = func(context.Context, uint16) (net.Listener, error) { return nil, fmt.Errorf("taken") }
	if err := l.proxy.Apply(ingress.Config{Ports: []ingress.Port{port(80), port(81)}}); err == nil || err.Error() != "port 81: taken" {
		t.Errorf("a port that is taken: %v", err)
	}
	if !answers(80) {
		t.Error("port 80 does not answer beside one that is taken")
	}
}

// lockedBuffer may be written and read at once.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestAccessLog(t *testing.T) {
	for format, want := range map[AccessFormat]string{
		AccessJSON:   `127.0.0.1 GET a.example /x?"y 200 3 Ingress default/web default/web agent \"1`,
		AccessCommon: `"GET /x?\"y HTTP/1.1" 200 3 "-" "agent \\\"1"`,
	} {
		var out lockedBuffer
		l := newLab(t, Options{AccessLog: &out, AccessFormat: format})
		l.serve("web", []string{endpoint(t, says("web"))})
		l.apply([]ingress.Route{route("a.example", "web")})
		c, err := net.Dial("tcp", l.addr(80))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "GET /x?\"y HTTP/1.1\r\nHost: a.example\r\nUser-Agent: agent \\\"1\r\nConnection: close\r\n\r\n")
		_, _ = io.ReadAll(c)
		c.Close()
		within(t, 5*time.Second, "a line", func() bool { l.proxy.access.flush(); return strings.HasSuffix(out.String(), "\n") })
		if format == AccessCommon {
			if !strings.Contains(out.String(), want) || !strings.HasPrefix(out.String(), "127.0.0.1 - - [") {
				t.Errorf("%s: want %s", out.String(), want)
			}
			continue
		}
		var line struct {
			Client, Method, Host, URI, Route, Service, Agent string
			Status, Bytes                                    int
		}
		if err := json.Unmarshal([]byte(out.String()), &line); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		got := fmt.Sprint(line.Client, " ", line.Method, " ", line.Host, " ", line.URI, " ", line.Status, " ", line.Bytes, " ", line.Route, " ", line.Service, " ", line.Agent)
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestMetrics: clients cannot make series, and those of routes that are gone go.
func TestMetrics(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("web", []string{endpoint(t, says("web"))})
	l.apply([]ingress.Route{route("a.example", "web")})
	count := func() (series int, sum float64) {
		families, err := l.proxy.metrics.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == prometheus.BuildFQName("toyproxy", "ingress", "requests_total") {
				for _, m := range f.Metric {
					sum += m.GetCounter().GetValue()
				}
				series += len(f.Metric)
			}
		}
		return series, sum
	}
	for i := range 50 {
		l.do("GET", fmt.Sprintf("random-%d.example", i), fmt.Sprintf("/%d", i))
		l.do(fmt.Sprintf("METHOD%d", i), "a.example", fmt.Sprintf("/%d", i))
	}
	within(t, 5*time.Second, "100 requests counted in 2 series", func() bool { n, sum := count(); return n == 2 && sum == 100 })
	l.apply([]ingress.Route{route("b.example", "other")})
	if n, sum := count(); n != 1 || sum != 50 {
		t.Errorf("after the route went: %d series, %v requests", n, sum)
	}
}
