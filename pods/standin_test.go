package pods

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/toyproxy/toyproxy/test/sandbox"
)

// serveStandIn runs a stand-in in the test's node until the test ends.
func serveStandIn(t *testing.T) {
	t.Helper()
	sandbox.Node(t)
	sh(t, "ip link set lo up")
	s, err := parseStandIn([]string{"--pod", "web-1", "--address", "127.0.0.1", "--address", "::1", "--port", "8080/TCP", "--port", "5353/UDP", "--port", "9/SCTP"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	for _, p := range s.ports {
		if err := s.listen(ctx, p, &wg); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStandInTCP(t *testing.T) {
	serveStandIn(t)
	for _, tc := range []struct{ message, want string }{
		{"hello\n", "web-1 127.0.0.1:8080 from 127.0.0.1\n"},
		{"hello\nagain\n", "web-1 127.0.0.1:8080 from 127.0.0.1\nweb-1 127.0.0.1:8080 from 127.0.0.1\n"},
		{"no end of line", "web-1 127.0.0.1:8080 from 127.0.0.1\n"},
		{"", "web-1 127.0.0.1:8080 from 127.0.0.1\n"},
		{"GETTING on\n", "web-1 127.0.0.1:8080 from 127.0.0.1\n"},
		{"\x16\x03\x01\x00\n", "web-1 127.0.0.1:8080 from 127.0.0.1\n"},
		{"GET /hostname HTTP/1.0\r\n\r\n", "web-1\n"},
	} {
		c, err := net.Dial("tcp", "127.0.0.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, tc.message)
		c.(*net.TCPConn).CloseWrite()
		b, err := io.ReadAll(c)
		if err != nil || !strings.HasSuffix(string(b), tc.want) || tc.message[:min(3, len(tc.message))] != "GET" && string(b) != tc.want {
			t.Errorf("%q: %q, %v", tc.message, b, err)
		}
		c.Close()
	}
}

func TestStandInHTTP(t *testing.T) {
	serveStandIn(t)
	// One connection dialled on this thread, kept alive over all requests.
	c, err := net.Dial("tcp", "[::1]:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, tc := range []struct{ method, path, body, want string }{
		{"GET", "/", "", "web-1 [::1]:8080 from ::1\n"},
		{"GET", "/hostname", "", "web-1\n"},
		{"GET", "/clientip", "", c.LocalAddr().String() + "\n"},
		{"GET", "/healthz", "", "ok\n"},
		{"POST", "/echo", "some body", "some body"},
		{"PUT", "/any/other/path", "x", "web-1 [::1]:8080 from ::1\n"},
	} {
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: web\r\nContent-Length: %d\r\n\r\n%s", tc.method, tc.path, len(tc.body), tc.body)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != tc.want || resp.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %q, want %q, %v", tc.method, tc.path, b, tc.want, err)
		}
	}
}

func TestStandInUDP(t *testing.T) {
	serveStandIn(t)
	for to, want := range map[string]string{
		"127.0.0.1:5353": "web-1 127.0.0.1:5353 from 127.0.0.1: ping",
		"[::1]:5353":     "web-1 [::1]:5353 from ::1: ping",
	} {
		if got := ask(t, "udp", to, "ping"); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}

func TestStandInArgs(t *testing.T) {
	p := web("web-1")
	c := p.Spec.Containers[0]
	c.Ports = append(c.Ports, c.Ports[0])
	p.Status.PodIPs = nil
	if got := fmt.Sprint(standInArgs(p, c)); got != "[stand-in --pod web-1 --port 8080/TCP --port 5353/UDP]" {
		t.Errorf("got %s", got)
	}
	if _, err := parseStandIn(standInArgs(p, c)[1:]); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]string{nil, {"--pod"}, {"--pod", "p", "--port", "99999/TCP"}, {"--pod", "p", "--address", "x"}, {"--pod", "p", "--what", "x"}} {
		if _, err := parseStandIn(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
