package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/serve"
)

// webRetry is when a port that was taken is tried again.
const webRetry = 5 * time.Second

// Handler answers /metrics, /health and /ready.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", s.config.Metrics.Handler())
	mux.HandleFunc("/health", status(func() bool { return s.state.Load() != leaving }))
	mux.HandleFunc("/ready", status(s.Ready))
	return mux
}

// status answers OK, or 503.
func status(good func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !good() {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "not ready\n")
			return
		}
		_, _ = io.WriteString(w, "OK")
	}
}

// ServeWeb answers with Handler on an address until the context ends. While the port
// is taken, which it tells, it is tried again.
func (s *Server) ServeWeb(ctx context.Context, addr string) {
	told := ""
	for addr != "" && ctx.Err() == nil {
		ln, err := serve.Listen(ctx, addr)
		if err == nil {
			err = serve.Serve(ctx, ln, s.Handler())
		}
		if err != nil && err.Error() != told {
			told = err.Error()
			s.config.Tell(told + " (it is tried again; DNS is served all the same)")
		}
		select {
		case <-ctx.Done():
		case <-time.After(webRetry):
		}
	}
}

// end takes note of an exchange whose reply was sent, or could not be.
func (s *Server) end(x *exchange, bytes int, err error) {
	took := time.Since(x.started)
	s.config.Metrics.note(x, bytes, took)
	s.journal.note(x, bytes, took)
	if err != nil {
		s.journal.trouble(fmt.Errorf("reply to %s: %w", x.client, err))
	}
}

// panicked takes note of a fault of this program that a query has shown.
func (s *Server) panicked(trouble any) {
	s.config.Metrics.panics.Inc()
	stack := strings.ReplaceAll(string(debug.Stack()), "\n", " | ")
	s.config.Tell(fmt.Sprintf("a query showed a fault of this program, which went on: %v: %s", trouble, stack))
}
