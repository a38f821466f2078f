package metrics

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler answers on the metrics port as kube-proxy does: /metrics, /proxyMode with
// the name of the backend, and /healthz, which health answers. Health may be nil.
func (r *Recorder) Handler(health http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{Registry: r.registry}))
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		fmt.Fprint(w, r.Backend())
	})
	if health != nil {
		mux.Handle("/healthz", health)
	}
	return mux
}
