package proxy

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// exchange is a request and what is done with it.
type exchange struct {
	world *world
	conn  conn
	found ingress.Found
	path  ingress.Path
	share *ingress.Share
	pool  *pool
	// set are the targets from which all tries of the request choose.
	set *targetSet
	// wish is what the choice goes by, target the last one chosen.
	wish   wish
	target *target
	// peer is who is connected, client who it speaks for.
	peer, client netip.Addr

	begun time.Time
	// waited is the time until the head of the endpoint's answer.
	waited  time.Duration
	retries int
	status  int
	sent    int64
	// reason says in the log why there is no answer of an endpoint.
	reason string
	// endConn: the connection may not be used again.
	endConn bool
	// bodiless: the answer of the endpoint ended with its head.
	bodiless bool
	// body is that of a request over HTTP/1, nil when there is none.
	body *clientBody
	// bodyDue is until when the next bytes of the request's body have to come, in
	// nanoseconds since 1970; 0 when they need not.
	bodyDue atomic.Int64
	// bodyErr is why the rest of the body could not be read.
	bodyErr atomic.Pointer[error]
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// settings are those of the route.
func (x *exchange) settings() ingress.Settings {
	if x.found.Route == nil {
		return ingress.Settings{}
	}
	return x.found.Route.Settings
}

// object names the route's object for people.
func (x *exchange) object() string {
	if x.found.Route == nil {
		return ""
	}
	return x.found.Route.Object.String()
}

// service names the Service that the request went to.
func (x *exchange) service() string {
	if x.share == nil {
		return ""
	}
	return x.share.Backend.Service.String()
}

// recorder notes what is answered.
type recorder struct {
	http.ResponseWriter
	x *exchange
	// filters change the head of the answer.
	filters []ingress.Filter
	// accept is what the client likes to read.
	accept string
	// atUpgrade is called when the connection is taken over; hijacked wraps it.
	atUpgrade func()
	hijacked  func(c net.Conn, early []byte) net.Conn
	// cookie is the name of that of affinity, empty for none.
	cookie string
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status. Informational answers go by.
func (w *recorder) WriteHeader(status int) {
	if status >= 200 && w.x.status == 0 {
		w.x.status = status
		h := w.Header()
		for _, f := range w.filters {
			changeHeaders(h, f)
		}
		w.setCookie()
		if w.x.endConn {
			h.Set("Connection", "close")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (w *recorder) Write(p []byte) (int, error) {
	if w.x.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	w.x.sent += int64(n)
	return n, err
}

// FlushError sends what has been written, unless the answer has no body: then its head
// has to go together with its end, by which clients of gRPC know that they look at a
// status (Trailers-Only).
func (w *recorder) FlushError() error {
	if w.x.bodiless {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack gives the connection away, for an upgrade.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.x.status = http.StatusSwitchingProtocols
	if w.atUpgrade != nil {
		w.atUpgrade()
	}
	// What the client sent after its request has been read already.
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	return w.hijacked(c, bytes.Clone(early)), rw, nil
}
