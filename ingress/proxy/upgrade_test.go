package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/toyproxy/toyproxy/ingress"
)

// echo is an endpoint that upgrades to a protocol of its own: it says which headers
// came, sends back what it gets, and "bye" once the client has no more to send.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		fmt.Fprintf(w, "no upgrade asked for; Connection %q", r.Header.Get("Connection"))
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: %s\r\nX-Keep-Alive: %q\r\nX-Drop: %q\r\n\r\n",
		r.Header.Get("Upgrade"), r.Header.Get("Keep-Alive"), r.Header.Get("X-Drop"))
	_ = rw.Flush()
	_, _ = io.Copy(c, rw)
	_, _ = io.WriteString(c, "bye")
}

// TestUpgrade is field fault 107.
func TestUpgrade(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("web", []string{endpoint(t, echo)})
	l.apply([]ingress.Route{route("", "web")})
	for _, dial := range map[string]func() (net.Conn, error){
		"plain": func() (net.Conn, error) { return net.Dial("tcp", l.addr(80)) },
		"TLS":   func() (net.Conn, error) { return tls.Dial("tcp", l.addr(443), &tls.Config{InsecureSkipVerify: true}) },
	} {
		for _, connection := range []string{"Upgrade", "upgrade", "keep-alive, Upgrade", "keep-alive, upgrade, X-Drop"} {
			for _, protocol := range []string{"websocket", "WebSocket", "toy/1"} {
				c, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				handshake(t, c, connection, protocol)
			}
		}
	}
}

// handshake upgrades a connection, and sends bytes with the request and after it.
func handshake(t *testing.T, c net.Conn, connection, protocol string) {
	t.Helper()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	// The first bytes come with the request: none may be lost, and none be taken for another request.
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a.example\r\nCONNECTION: %s\r\nUpgrade: %s\r\nKeep-Alive: 5\r\nX-Drop: x\r\n\r\nearly\n\x00", connection, protocol)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("%s, %s: %v", connection, protocol, err)
	}
	if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != protocol || !strings.EqualFold(resp.Header.Get("Connection"), "upgrade") {
		t.Errorf("%s, %s: %d %v", connection, protocol, resp.StatusCode, resp.Header)
	}
	dropped := `"x"`
	if strings.Contains(connection, "X-Drop") {
		dropped = `""`
	}
	if resp.Header.Get("X-Keep-Alive") != `""` || resp.Header.Get("X-Drop") != dropped {
		t.Errorf("%s: hop-by-hop headers at the endpoint: %v", connection, resp.Header)
	}
	_, _ = io.WriteString(c, " and late")
	_ = c.(interface{ CloseWrite() error }).CloseWrite()
	if text, err := io.ReadAll(r); err != nil || string(text) != "early\n\x00 and latebye" {
		t.Errorf("%s, %s: %q, %v", connection, protocol, text, err)
	}
}

// TestNoUpgrade: a client of HTTP/1.0 gets no 101, and a connection on which an
// upgrade was asked for and refused carries no other request.
func TestNoUpgrade(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("web", []string{endpoint(t, echo)})
	l.serve("plain", []string{endpoint(t, says("plain"))})
	l.apply([]ingress.Route{route("a.example", "web"), route("plain.example", "plain")})
	for text, want := range map[string]string{
		"GET / HTTP/1.0\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n": `no upgrade asked for; Connection ""`,
		"GET / HTTP/1.1\r\nHost: plain.example\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" +
			"GET / HTTP/1.1\nHost: a.example\n\n": "plain",
	} {
		c, err := net.Dial("tcp", l.addr(80))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(c, text)
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || string(body) != want || !resp.Close {
			t.Errorf("%q: %d %q, close %v", text, resp.StatusCode, body, resp.Close)
		}
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Errorf("%q: another answer: %q", text, rest)
		}
		c.Close()
	}
}

// webSocketEcho answers each message with the same.
func webSocketEcho(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, text, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, text) != nil {
			return
		}
	}
}

// talk sends a message and waits for it to come back.
func talk(ctx context.Context, c *websocket.Conn, text string) error {
	if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		return err
	}
	_, got, err := c.Read(ctx)
	if err == nil && string(got) != text {
		err = fmt.Errorf("got %q, want %q", got, text)
	}
	return err
}
