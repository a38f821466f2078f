package proxy

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// TestBodyThatNeverComes: an endpoint answers a request whose body its client does not
// send. The connections end, after the answer, and nothing is logged as a fault of ours.
func TestBodyThatNeverComes(t *testing.T) {
	const clients = 50
	var log syncBuffer
	l := newLab(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	l.serve("web", []string{endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "early")
	})})
	l.apply([]ingress.Route{route("", "web")})
	var done sync.WaitGroup
	for range clients {
		done.Go(func() { sendHalf(t, l.addr(80)) })
	}
	done.Wait()
	if text := log.String(); strings.Contains(text, "panic") {
		t.Errorf("the log has %d panics, the first: %.400s", strings.Count(text, "panic serving"), text)
	}
}

// sendHalf sends a part of a body, reads the answer, and waits for the connection's end.
func sendHalf(t *testing.T, addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000\r\n\r\nab"); err != nil {
		t.Error(err)
		return
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "early" {
		t.Errorf("answer %q, %v", body, err)
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("after the answer came %q, %v; want the end of the connection", rest, err)
	}
}

// syncBuffer is a buffer that several may write to.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written.
func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
