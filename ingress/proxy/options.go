package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// Options are what a Proxy is started with. Zero values of times and sizes mean
// the defaults named beside them.
type Options struct {
	// Listen opens the port of a Config, on whatever port of the machine stands for it.
	Listen func(ctx context.Context, port uint16) (net.Listener, error)
	// Log is told of changes and faults. Nil drops them.
	Log *slog.Logger
	// AccessLog gets a line for each request, in the format AccessFormat. Nil is no log.
	AccessLog    io.Writer
	AccessFormat AccessFormat
	// Trusted are the ranges of proxies before this one: what they say of their
	// clients (X-Forwarded-*, X-Real-IP, Forwarded) is believed.
	Trusted []netip.Prefix

	// HeaderTimeout bounds the wait for a whole head, and for a TLS handshake (10 s);
	// IdleTimeout that for the next request of a connection (75 s); BodyTimeout that for
	// the next bytes of a request's body (60 s).
	HeaderTimeout, IdleTimeout, BodyTimeout time.Duration
	// ConnectTimeout bounds a connection to an endpoint (5 s), ReadTimeout the wait for
	// its next bytes (60 s). Upgraded connections and HTTP/2 to endpoints, which carry
	// streams that are silent for long, have a ReadTimeout only where a route sets it.
	ConnectTimeout, ReadTimeout time.Duration
	// RequestTimeout bounds a whole exchange; 0 is without a bound.
	RequestTimeout time.Duration
	// MaxHeaderBytes bounds a head (64 KiB), MaxBody the body of a request (0: no bound).
	MaxHeaderBytes int
	MaxBody        int64
	// MaxConnections bounds the open connections of clients (0: no bound).
	MaxConnections int
	// DrainTimeout is how long requests and upgraded connections may go on once the
	// Proxy is to end (30 s).
	DrainTimeout time.Duration
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	or := func(d *time.Duration, fallback time.Duration) {
		if *d == 0 {
			*d = fallback
		}
	}
	or(&o.HeaderTimeout, 10*time.Second)
	or(&o.IdleTimeout, 75*time.Second)
	or(&o.BodyTimeout, time.Minute)
	or(&o.ConnectTimeout, 5*time.Second)
	or(&o.ReadTimeout, time.Minute)
	or(&o.DrainTimeout, 30*time.Second)
	if o.MaxHeaderBytes == 0 {
		o.MaxHeaderBytes = 64 << 10
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
