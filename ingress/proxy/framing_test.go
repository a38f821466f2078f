package proxy

import (
	"testing"
)

// FuzzFraming: where a stream is cut into pieces makes no difference.
func FuzzFraming(f *testing.F) {
	for _, p := range probes() {
		f.Add([]byte(p.text), uint8(3))
	}
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00"), uint8(5))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n\n\n\x00"), uint8(2))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nabcde\r\n0\r\nT: v\r\n\r\nGET / HTTP/1.1\r\n\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		var whole, parts framing
		good, err := whole.scan(text)
		at, step := 0, int(piece)+1
		var partErr error
		for at < len(text) && partErr == nil {
			n, e := parts.scan(text[at:min(at+step, len(text))])
			at, partErr = at+n, e
		}
		if err != partErr || at != good || err == nil && whole.state != parts.state {
			t.Errorf("whole: %d, %v, state %d; in pieces of %d: %d, %v, state %d", good, err, whole.state, step, at, partErr, parts.state)
		}
	})
}

// TestFramingAccepts: what browsers, libraries and proxies send is not refused.
func TestFramingAccepts(t *testing.T) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: a.example\r\nX-Empty:\r\nX-Tab:\ta\tb\r\nX-Latin: caf\xe9\r\n\r\n",
		"GET http://a.example/x?y HTTP/1.1\r\nHost: A.example\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n\n\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\nA;ext=\"x\"\r\n0123456789\r\n000\r\nX-Sum: 1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00\n",
	} {
		var f framing
		if n, err := f.scan([]byte(text)); err != nil || n != len(text) {
			t.Errorf("%q: refused after %d bytes: %v", text, n, err)
		}
	}
}

func BenchmarkFraming(b *testing.B) {
	text := []byte("GET /a/path?with=query HTTP/1.1\r\nHost: a.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n" +
		"Accept: text/html,application/xhtml+xml\r\nAccept-Encoding: gzip, deflate, br\r\nCookie: session=0123456789abcdef\r\n\r\n")
	var f framing
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.scan(text); err != nil {
			b.Fatal(err)
		}
	}
}
