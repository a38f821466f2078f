package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// probes are requests that programs read in two ways. Each is to be refused, and
// what it hides must not reach an endpoint.
func probes() []struct{ name, text string } {
	const hidden = "GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n"
	head := func(lines ...string) string {
		return "POST /outer HTTP/1.1\r\nHost: a.example\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	chunked := "0\r\n\r\n" + hidden
	return []struct{ name, text string }{
		{"CL.TE", head(fmt.Sprintf("Content-Length: %d", len(chunked)), "Transfer-Encoding: chunked") + chunked},
		{"TE.CL", head("Transfer-Encoding: chunked", "Content-Length: 4") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)},
		{"TE.TE, one unknown", head("Transfer-Encoding: chunked", "Transfer-Encoding: x") + chunked},
		{"TE list", head("Transfer-Encoding: chunked, identity") + chunked},
		{"TE that is nearly chunked", head("Transfer-Encoding: xchunked") + chunked},
		{"TE in quotes", head(`Transfer-Encoding: "chunked"`) + chunked},
		{"TE with vertical tab", head("Transfer-Encoding:\vchunked") + chunked},
		{"TE empty", head("Transfer-Encoding:") + hidden},
		{"TE of HTTP/1.0", "POST /outer HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked},
		{"two lengths that differ", head("Content-Length: 0", "Content-Length: 44") + hidden},
		{"two lengths that agree", head("Content-Length: 0", "Content-Length: 0") + hidden},
		{"a list of lengths", head("Content-Length: 0, 0") + hidden},
		{"signed length", head("Content-Length: +0") + hidden},
		{"hexadecimal length", head("Content-Length: 0x0") + hidden},
		{"negative length", head("Content-Length: -1") + hidden},
		{"huge length", head("Content-Length: 99999999999999999999") + hidden},
		{"bare LF after a header", "GET /outer HTTP/1.1\r\nHost: a.example\nX: y\r\n\r\n"},
		{"bare LF after the request line", "GET /outer HTTP/1.1\nHost: a.example\r\n\r\n"},
		{"bare LF ends the head", "GET /outer HTTP/1.1\r\nHost: a.example\r\n\n" + hidden},
		{"bare CR within a header", "GET /outer HTTP/1.1\r\nHost: a.example\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n"},
		{"NUL in a value", "GET /outer HTTP/1.1\r\nHost: a.example\r\nX: a\x00b\r\n\r\n"},
		{"NUL in the target", "GET /outer\x00 HTTP/1.1\r\nHost: a.example\r\n\r\n"},
		{"two hosts", "GET /outer HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n"},
		{"two equal hosts", "GET /outer HTTP/1.1\r\nHost: a.example\r\nhost: a.example\r\n\r\n"},
		{"no host", "GET /outer HTTP/1.1\r\nX: y\r\n\r\n"},
		{"absolute form with another host", "GET http://b.example/outer HTTP/1.1\r\nHost: a.example\r\n\r\n"},
		{"folded line", "GET /outer HTTP/1.1\r\nHost: a.example\r\nX: a\r\n Transfer-Encoding: chunked\r\n\r\n"},
		{"folded line with tab", "GET /outer HTTP/1.1\r\nHost: a.example\r\nX: a\r\n\tb\r\n\r\n"},
		{"first line folded", "GET /outer HTTP/1.1\r\n Host: a.example\r\n\r\n"},
		{"space before colon", head("Transfer-Encoding : chunked") + chunked},
		{"tab before colon", head("Content-Length\t: 44") + hidden},
		{"no colon", "GET /outer HTTP/1.1\r\nHost: a.example\r\nX\r\n\r\n"},
		{"empty name", "GET /outer HTTP/1.1\r\nHost: a.example\r\n: x\r\n\r\n"},
		{"two spaces in the request line", "GET  /outer HTTP/1.1\r\nHost: a.example\r\n\r\n"},
		{"a space in the target", "GET /outer /x HTTP/1.1\r\nHost: a.example\r\n\r\n"},
		{"no version", "GET /outer\r\nHost: a.example\r\n\r\n"},
		{"lower-case version", "GET /outer http/1.1\r\nHost: a.example\r\n\r\n"},
		{"HTTP/1.2", "GET /outer HTTP/1.2\r\nHost: a.example\r\n\r\n"},
		{"preface of HTTP/2 later", "GET /first HTTP/1.1\r\nHost: a.example\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		{"chunk without size", head("Transfer-Encoding: chunked") + "\r\n\r\n" + hidden},
		{"chunk size with sign", head("Transfer-Encoding: chunked") + "+0\r\n\r\n" + hidden},
		{"chunk size with 0x", head("Transfer-Encoding: chunked") + "0x0\r\n\r\n" + hidden},
		{"chunk size of 17 digits", head("Transfer-Encoding: chunked") + "00000000000000000\r\n\r\n" + hidden},
		{"chunk line ends in LF", head("Transfer-Encoding: chunked") + "0\n\r\n" + hidden},
		{"chunk longer than it says", head("Transfer-Encoding: chunked") + "1\r\nab\r\n0\r\n\r\n" + hidden},
		{"trailers end in LF", head("Transfer-Encoding: chunked") + "0\r\n\n" + hidden},
		{"path with escaped NUL", "GET /outer%00 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"},
		{"CONNECT", "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n" + hidden},
	}
}

// TestSmuggling sends what could be read in two ways, in one piece and byte by
// byte, within TLS and without.
func TestSmuggling(t *testing.T) {
	var hidden, other atomic.Int64
	l := newLab(t, Options{})
	at := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/hidden" {
			hidden.Add(1)
		}
		other.Add(1)
	})
	l.serve("web", []string{at})
	l.apply([]ingress.Route{route("", "web")})
	for _, probe := range probes() {
		for way, dial := range map[string]func() (net.Conn, error){
			"plain": func() (net.Conn, error) { return net.Dial("tcp", l.addr(80)) },
			"TLS": func() (net.Conn, error) {
				return tls.Dial("tcp", l.addr(443), &tls.Config{InsecureSkipVerify: true})
			},
		} {
			for _, piece := range []int{len(probe.text), 1} {
				name := fmt.Sprintf("%s, %s, pieces of %d", probe.name, way, piece)
				if fault := refusal(t, dial, probe.text, piece); fault != "" {
					t.Errorf("%s: %s", name, fault)
				}
				if hidden.Load() > 0 {
					t.Fatalf("%s: the endpoint saw the hidden request", name)
				}
			}
		}
	}
	if other.Load() > 8*int64(len(probes())) {
		t.Errorf("the endpoint saw %d requests", other.Load())
	}
}

// refusal sends a text and returns what is wrong with the answer: the last one must
// be 400 or 405, and the connection must end.
func refusal(t *testing.T, dial func() (net.Conn, error), text string, piece int) string {
	t.Helper()
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	go func() {
		for rest := text; rest != ""; {
			n := min(piece, len(rest))
			if _, err := io.WriteString(c, rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	r := bufio.NewReader(c)
	last := 0
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				return fmt.Sprintf("the connection stays open after status %d", last)
			}
			break
		}
		last = resp.StatusCode
		_, _ = io.Copy(io.Discard, resp.Body)
		if last != 400 && last != 405 && last != 200 {
			return fmt.Sprintf("status %d", last)
		}
	}
	if last != 400 && last != 405 {
		return fmt.Sprintf("last status %d", last)
	}
	return ""
}
