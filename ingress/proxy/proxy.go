package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// Proxy serves one Config at a time. Its methods may be called from any number of
// goroutines.
type Proxy struct {
	opts       Options
	world      atomic.Pointer[world]
	backends   *backends
	ports      *ports
	transports transports
	reverse    *httputil.ReverseProxy
	upgrades   upgrades
	metrics    *metrics
	access     *accessLog
	fallback   *tls.Certificate
	// connections are those open now.
	connections atomic.Int64
	mirrors     atomic.Int64
	draining    atomic.Bool
	ready       atomic.Bool

	// applying guards routes, and lets one Config in at a time.
	applying sync.Mutex
	routes   map[cluster.Ref]*routeSeries
	// unrouted are the series of requests that no route has.
	unrouted routeSeries
}

// New returns a proxy that serves nothing and has no port open. The error is for a
// machine that makes no keys.
func New(opts Options) (*Proxy, error) {
	fallback, err := selfSigned(time.Now())
	if err != nil {
		return nil, err
	}
	p := &Proxy{opts: opts.withDefaults(), metrics: newMetrics(), fallback: fallback, access: newAccessLog(opts.AccessLog, opts.AccessFormat)}
	p.backends = newBackends(p.metrics)
	p.ports = &ports{proxy: p, open: map[uint16]*port{}}
	p.transports = newTransports(p.opts)
	p.reverse = p.newReverse()
	p.upgrades.gauge = p.metrics.upgraded
	p.world.Store(&world{router: ingress.NewRouter(ingress.Config{})})
	return p, nil
}

// Ready makes /healthz say so: the objects that there were have been read.
func (p *Proxy) Ready() { p.ready.Store(true) }

// Handler answers on the port for those who watch the proxy: /healthz says 200 while
// new requests are welcome, 503 before Ready and while it drains; /metrics is for
// Prometheus.
func (p *Proxy) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case p.draining.Load():
			http.Error(w, "draining", http.StatusServiceUnavailable)
		case !p.ready.Load():
			http.Error(w, "the objects have not been read yet", http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte("ok\n"))
		}
	})
	mux.Handle("/metrics", promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{Registry: p.metrics.registry}))
	return mux
}

// Run serves until the context ends, and then drains: after the grace, in which
// /healthz says 503 and everything goes on, ports are closed, and requests and
// upgraded connections have DrainTimeout to end.
func (p *Proxy) Run(ctx context.Context, grace time.Duration) {
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-flush.C:
			p.access.flush()
		}
	}
	p.draining.Store(true)
	time.Sleep(grace)
	p.drain()
	p.access.flush()
}

func (p *Proxy) drain() {
	var both sync.WaitGroup
	both.Go(func() { p.ports.drain(p.opts.DrainTimeout) })
	both.Go(func() { p.upgrades.drain(p.opts.DrainTimeout) })
	both.Wait()
	p.transports.closeIdle()
}

// admit counts a connection in, or says that there are too many.
func (p *Proxy) admit() bool {
	n := p.connections.Add(1)
	if limit := p.opts.MaxConnections; limit > 0 && n > int64(limit) {
		p.connections.Add(-1)
		p.metrics.turnedAway.Inc()
		return false
	}
	return true
}

// refusal notes a request that was refused by the guard of its connection.
func (p *Proxy) refusal(fault *RefusedError) {
	p.metrics.refused.WithLabelValues(fault.Err.Error()).Inc()
	p.opts.Log.Debug("request refused", "err", fault.Err)
}

// finish notes what was answered.
func (p *Proxy) finish(x *exchange, r *http.Request) {
	took := time.Since(x.begun)
	p.metrics.inFlight.Dec()
	status := x.status
	if status == 0 {
		status = statusClientGone
	}
	route, host := x.world.series[x.found.Route], x.found.Hostname.Name
	if route == nil {
		route = &p.unrouted
	}
	if host == "" {
		host = "_"
	}
	s := p.metrics.of(route, seriesKey{host, x.service()})
	p.metrics.observe(s, r.Method, status, x.sent, took)
	if x.waited > 0 {
		s.wait.Observe(x.waited.Seconds())
	}
	p.access.note(x, r, status, took)
}

// serverLog passes what net/http complains of on to the log. Most of it is what
// clients do: it is told only when asked for. A panic is a fault of ours.
func (p *Proxy) serverLog() *log.Logger {
	return log.New(lines(func(text string) {
		if strings.Contains(text, "panic") {
			p.opts.Log.Error("http", "err", text)
			return
		}
		p.opts.Log.Debug("http", "err", text)
	}), "", 0)
}

// lines is an io.Writer that passes lines on.
type lines func(string)

// Write implements io.Writer.
func (l lines) Write(text []byte) (int, error) {
	l(string(bytes.TrimSpace(text)))
	return len(text), nil
}
