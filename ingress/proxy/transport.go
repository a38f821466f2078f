package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// The reasons why an exchange with an endpoint ends early.
var (
	errNoEndpoint   = errors.New("no endpoint")
	errSilent       = errors.New("the endpoint sent nothing for too long")
	errStuck        = errors.New("the endpoint took nothing for too long")
	errTryTimeout   = errors.New("the endpoint's time is up")
	errRequestLimit = errors.New("the request's time is up")
)

// connectError says that an endpoint could not be reached: nothing of the request
// has been sent.
type connectError struct{ err error }

func (e *connectError) Error() string { return "endpoint not reached: " + e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// transports keep the connections to endpoints, by what is spoken.
type transports struct{ http1, h2c, https *http.Transport }

func newTransports(opts Options) transports {
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		limit := opts.ConnectTimeout
		if x := exchangeOf(ctx); x != nil && x.settings().ConnectTimeout > 0 {
			limit = x.settings().ConnectTimeout
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		c, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, &connectError{err}
		}
		return c, nil
	}
	speak := func(set func(*http.Protocols)) *http.Transport {
		var protocols http.Protocols
		set(&protocols)
		return &http.Transport{
			DialContext:         dial,
			Protocols:           &protocols,
			DisableCompression:  true,
			MaxIdleConnsPerHost: 512,
			IdleConnTimeout:     time.Minute,
			TLSHandshakeTimeout: opts.ConnectTimeout,
			// As ingress-nginx: endpoints have certificates for names of their own making.
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
			MaxResponseHeaderBytes: 256 << 10,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second},
		}
	}
	return transports{
		http1: speak(func(p *http.Protocols) { p.SetHTTP1(true) }),
		h2c:   speak(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }),
		https: speak(func(p *http.Protocols) { p.SetHTTP1(true); p.SetHTTP2(true) }),
	}
}

func (t transports) closeIdle() {
	t.http1.CloseIdleConnections()
	t.h2c.CloseIdleConnections()
	t.https.CloseIdleConnections()
}

// RoundTrip sends a request to an endpoint of its backend. One that cannot be
// reached gives way to another, for requests that may be repeated.
func (p *Proxy) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	for {
		t := x.pool.pick(x.set, x.wish, time.Now())
		if t == nil {
			return nil, errNoEndpoint
		}
		x.target = t
		resp, err := p.try(x, t, req)
		if err == nil {
			return resp, nil
		}
		var refused *connectError
		if !errors.As(err, &refused) || req.Context().Err() != nil {
			t.series.failed.Inc()
			return nil, err
		}
		p.unreached(x, t, refused)
		if !isIdempotent(req.Method) || len(x.wish.tried) >= len(x.set.targets) || len(x.wish.tried) > mostTries-1 {
			return nil, err
		}
		x.retries++
		p.metrics.retries.WithLabelValues(x.service()).Inc()
	}
}

// unreached notes that an endpoint could not be reached. It is said once while it
// lasts.
func (p *Proxy) unreached(x *exchange, t *target, fault *connectError) {
	now := time.Now()
	t.series.connect.Inc()
	x.wish.tried = append(x.wish.tried, t)
	level := slog.LevelWarn
	if before := t.down.Swap(now.Add(skipped).UnixNano()); now.UnixNano()-before < int64(silentFor) {
		level = slog.LevelDebug
	}
	p.opts.Log.Log(context.Background(), level, "endpoint not reached", "service", x.service(), "endpoint", t.at, "err", fault.err)
}

// silentFor is how long an endpoint must have been well for a new fault to be told.
const silentFor = 30 * time.Second

// mostTries bounds how many endpoints are tried for a request.
const mostTries = 3

// isIdempotent: whoever sends such a request twice has the effect of once.
func isIdempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// try sends the request to one endpoint.
func (p *Proxy) try(x *exchange, t *target, req *http.Request) (*http.Response, error) {
	settings := x.settings()
	silence := settings.ReadTimeout
	streams := x.set.protocol == ingress.H2C || req.Header.Get("Upgrade") != ""
	if silence == 0 && !streams {
		silence = p.opts.ReadTimeout
	}
	w := watch(req.Context(), silence, settings.BackendTimeout)
	out := req.WithContext(w.ctx)
	out.URL.Host = t.at
	transport := p.transports.http1
	switch x.set.protocol {
	case ingress.H2C:
		transport = p.transports.h2c
	case ingress.HTTPS:
		transport = p.transports.https
		out.URL.Scheme = "https"
	}
	if out.Body != nil {
		out.Body = &watchedBody{ReadCloser: out.Body, watch: w, limit: settings.SendTimeout}
	}
	t.pending.Add(1)
	sent := time.Now()
	resp, err := transport.RoundTrip(out)
	if err != nil {
		t.pending.Add(-1)
		return nil, w.explain(err)
	}
	x.waited = time.Since(sent)
	x.bodiless = resp.ContentLength == 0
	t.series.answered.Inc()
	body := &answer{ReadCloser: resp.Body, target: t, watch: w}
	resp.Body = body
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// What is silent may be so for as long as both sides like.
		w.forgive(settings.ReadTimeout)
		resp.Body = &upgradedAnswer{body}
	}
	return resp, nil
}

// watchdog ends a try whose endpoint is silent for too long.
type watchdog struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence time.Duration
	quiet   *time.Timer
	whole   *time.Timer
	// last is when the timer was last set anew, in nanoseconds.
	last atomic.Int64
	// forgiven: silence does not matter any more.
	forgiven atomic.Bool
}

func watch(ctx context.Context, silence, whole time.Duration) *watchdog {
	w := &watchdog{silence: silence}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if silence > 0 {
		w.last.Store(time.Now().UnixNano())
		w.quiet = time.AfterFunc(silence, func() {
			if !w.forgiven.Load() {
				w.cancel(errSilent)
			}
		})
	}
	if whole > 0 {
		w.whole = time.AfterFunc(whole, func() { w.cancel(errTryTimeout) })
	}
	return w
}

// heard sets the timer anew, at most as often as makes a difference.
func (w *watchdog) heard() {
	if w.quiet == nil || w.forgiven.Load() {
		return
	}
	now := time.Now().UnixNano()
	if now-w.last.Load() > int64(w.silence)/16 {
		w.last.Store(now)
		w.quiet.Reset(w.silence)
	}
}

// forgive leaves only a bound that a route sets.
func (w *watchdog) forgive(silence time.Duration) {
	if w.quiet != nil && silence == 0 {
		w.forgiven.Store(true)
		w.quiet.Stop()
	}
	if w.whole != nil {
		w.whole.Stop()
	}
}

func (w *watchdog) stop() {
	if w.quiet != nil {
		w.quiet.Stop()
	}
	if w.whole != nil {
		w.whole.Stop()
	}
	w.cancel(nil)
}

// explain returns why the try ended, when it was the watchdog that ended it.
func (w *watchdog) explain(err error) error {
	cause := context.Cause(w.ctx)
	w.stop()
	switch cause {
	case errSilent, errStuck, errTryTimeout, errRequestLimit:
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// watchedBody is the body of a request: while it is sent, nobody need answer.
type watchedBody struct {
	io.ReadCloser
	watch *watchdog
	// limit is how long the endpoint may take nothing of it; 0 is without a bound.
	limit time.Duration
	stuck *time.Timer
}

// Read is called when the endpoint has taken what was read before.
func (b *watchedBody) Read(p []byte) (int, error) {
	if b.stuck != nil {
		b.stuck.Stop()
	}
	n, err := b.ReadCloser.Read(p)
	b.watch.heard()
	if b.limit > 0 && err == nil {
		b.stuck = time.AfterFunc(b.limit, func() { b.watch.cancel(errStuck) })
	}
	return n, err
}

// Close leaves the body open for another try: httputil.ReverseProxy closes it in the end.
func (b *watchedBody) Close() error { return nil }

// answer is the body of an endpoint's answer.
type answer struct {
	io.ReadCloser
	target *target
	watch  *watchdog
	once   sync.Once
}

// Read passes on what came.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.watch.heard()
	return n, err
}

// Close lets go of the endpoint.
func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	a.once.Do(func() {
		a.target.pending.Add(-1)
		a.watch.stop()
	})
	return err
}

// upgradedAnswer is a connection that was upgraded.
type upgradedAnswer struct{ *answer }

// Write sends what the client sent.
func (a *upgradedAnswer) Write(p []byte) (int, error) {
	a.watch.heard()
	w, ok := a.ReadCloser.(io.Writer)
	if !ok {
		return 0, http.ErrNotSupported
	}
	return w.Write(p)
}

// CloseWrite passes on that the client has nothing more to send.
func (a *upgradedAnswer) CloseWrite() error {
	if c, ok := a.ReadCloser.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
