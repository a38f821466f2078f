package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// kubeProxy begins the names that kube-proxy has, ours those that it has not.
	kubeProxy = "kubeproxy"
	ours      = "toyproxy"

	labelFamily = "ip_family"
)

// passBuckets are kube-proxy's for the duration of a pass: 1 ms to 16 s.
func passBuckets() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 15) }

// programmingBuckets are kube-proxy's for the time from a change to its effect:
// 0.25 s to 5 min, a second apart for the first minute.
func programmingBuckets() []float64 {
	return slices.Concat(prometheus.LinearBuckets(0.25, 0.25, 2), prometheus.LinearBuckets(1, 1, 59),
		prometheus.LinearBuckets(60, 5, 12), prometheus.LinearBuckets(120, 30, 7))
}

// passes are the metrics of kube-proxy about its passes.
type passes struct {
	took, tookWhole, tookChange *prometheus.HistogramVec
	programming                 *prometheus.HistogramVec
	last, lastQueued            *prometheus.GaugeVec
	endpointsPending            prometheus.Gauge
	endpointsTotal              prometheus.Counter
	servicesPending             prometheus.Gauge
	servicesTotal               prometheus.Counter
	noLocal                     *prometheus.GaugeVec
	flowsDeleted                prometheus.Counter
	healthz, livez              *prometheus.CounterVec
	restoreFailed, partFailed   *prometheus.CounterVec
	nftablesFailed              *prometheus.CounterVec
}

// maker makes metrics of one prefix and registers them.
type maker struct {
	registry prometheus.Registerer
	prefix   string
}

func (m maker) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: m.prefix, Name: name, Help: help}
}

func (m maker) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts(m.opts(name, help)), labels)
	m.registry.MustRegister(v)
	return v
}

func (m maker) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts(m.opts(name, help)), labels)
	m.registry.MustRegister(v)
	return v
}

func (m maker) histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: m.prefix, Name: name, Help: help, Buckets: buckets}, []string{labelFamily})
	m.registry.MustRegister(v)
	return v
}

func newPasses(r prometheus.Registerer) passes {
	m := maker{r, kubeProxy}
	return passes{
		took:             m.histogram("sync_proxy_rules_duration_seconds", "Duration of a pass.", passBuckets()),
		tookWhole:        m.histogram("sync_full_proxy_rules_duration_seconds", "Duration of a pass that compared the kernel with the whole table.", passBuckets()),
		tookChange:       m.histogram("sync_partial_proxy_rules_duration_seconds", "Duration of a pass that wrote only what had changed.", passBuckets()),
		programming:      m.histogram("network_programming_duration_seconds", "Time from when a change was noticed until it was in force.", programmingBuckets()),
		last:             m.gauge("sync_proxy_rules_last_timestamp_seconds", "When the last pass that succeeded ended, in seconds since 1970.", labelFamily),
		lastQueued:       m.gauge("sync_proxy_rules_last_queued_timestamp_seconds", "When the last change was noticed, in seconds since 1970.", labelFamily),
		endpointsPending: m.gauge("sync_proxy_rules_endpoint_changes_pending", "Changes of endpoints that are not in force yet.").WithLabelValues(),
		endpointsTotal:   m.counter("sync_proxy_rules_endpoint_changes_total", "Changes of endpoints.").WithLabelValues(),
		servicesPending:  m.gauge("sync_proxy_rules_service_changes_pending", "Changes of Services that are not in force yet.").WithLabelValues(),
		servicesTotal:    m.counter("sync_proxy_rules_service_changes_total", "Changes of Services.").WithLabelValues(),
		noLocal:          m.gauge("sync_proxy_rules_no_local_endpoints_total", "Service ports with a Local traffic policy that have endpoints, but none on this node.", "traffic_policy", labelFamily),
		flowsDeleted:     m.counter("conntrack_reconciler_deleted_entries_total", "Tracked flows that were deleted because they led nowhere any more.").WithLabelValues(),
		healthz:          m.counter("proxy_healthz_total", "Answers of /healthz, by HTTP status.", "code"),
		livez:            m.counter("proxy_livez_total", "Answers of /livez, by HTTP status.", "code"),
		restoreFailed:    m.counter("sync_proxy_rules_iptables_restore_failures_total", "Passes of the backends iptables and ipvs that failed.", labelFamily),
		partFailed:       m.counter("sync_proxy_rules_iptables_partial_restore_failures_total", "Passes of the backend iptables that failed to write only what had changed.", labelFamily),
		nftablesFailed:   m.counter("sync_proxy_rules_nftables_sync_failures_total", "Passes of the backend nftables that failed.", labelFamily),
	}
}

// beyond are the metrics that kube-proxy does not have.
type beyond struct {
	build, backend           *prometheus.GaugeVec
	passes, failures         *prometheus.CounterVec
	changes, drift           *prometheus.CounterVec
	problems                 *prometheus.GaugeVec
	audited                  prometheus.Gauge
	objects                  *prometheus.GaugeVec
	restarts                 prometheus.Gauge
	podsCreated, podsDeleted prometheus.Counter
	rolling                  prometheus.Gauge
}

func newBeyond(r prometheus.Registerer) beyond {
	m := maker{r, ours}
	return beyond{
		build:       m.gauge("build_info", "1, with the version as a label.", "version", "goversion"),
		backend:     m.gauge("backend_info", "1 for the backend in use.", "backend"),
		passes:      m.counter("passes_total", "Passes, by each thing that made them necessary.", "cause"),
		failures:    m.counter("pass_failures_total", "Passes that failed, by each thing that made them necessary.", "cause"),
		changes:     m.counter("kernel_changes_total", "Kernel objects written for changed objects, by kind and what was done.", "object", "operation"),
		drift:       m.counter("drift_repaired_total", "Kernel objects that others had changed and that were put right, by kind.", "object"),
		problems:    m.gauge("problems", "What is wrong with the input now; errors leave the object or a part of it out.", "kind", "severity"),
		audited:     m.gauge("audit_last_timestamp_seconds", "When the kernel was last found, or made, equal to the whole table, in seconds since 1970.").WithLabelValues(),
		objects:     m.gauge("objects", "How many there are.", "kind"),
		restarts:    m.gauge("container_restarts", "How often containers of the Pods that live were started again.").WithLabelValues(),
		podsCreated: m.counter("pods_created_total", "Pods made.").WithLabelValues(),
		podsDeleted: m.counter("pods_deleted_total", "Pods ended.").WithLabelValues(),
		rolling:     m.gauge("workloads_rolling", "Workloads with Pods of an older revision, or new ones that are not available yet.").WithLabelValues(),
	}
}
