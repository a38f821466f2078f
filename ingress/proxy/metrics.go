package proxy

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toyproxy/toyproxy/ingress"
)

// metrics are what Prometheus reads. Labels come from objects, never from what
// clients send, so that there are as many series as objects make.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	bytes       *prometheus.CounterVec
	endpoints   *prometheus.CounterVec
	waits       *prometheus.HistogramVec
	retries     *prometheus.CounterVec
	refused     *prometheus.CounterVec
	reloads     *prometheus.CounterVec
	reloaded    prometheus.Gauge
	connections *prometheus.GaugeVec
	turnedAway  prometheus.Counter
	upgraded    prometheus.Gauge
	inFlight    prometheus.Gauge
}

// namespace begins every name.
const namespace = "toyproxy_ingress"

// latencies are the bounds of the buckets, in seconds: those of ingress-nginx and
// finer ones below.
func latencies() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: latencies()}, labels)
	}
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		requests:  counter("requests_total", "Requests answered, by the host of the rule, the object of the rule, its Service, method and status.", "host", "route", "service", "method", "code"),
		durations: histogram("request_duration_seconds", "Time from the head of a request to the end of its answer.", "host", "route", "service"),
		bytes:     counter("response_bytes_total", "Bytes of the bodies of answers.", "host", "route", "service"),
		endpoints: counter("endpoint_requests_total", "Requests sent to an endpoint, by outcome: answered, connect (it could not be reached), or failed.", "service", "endpoint", "outcome"),
		waits:     histogram("endpoint_duration_seconds", "Time until the head of an endpoint's answer.", "service"),
		retries:   counter("retries_total", "Requests sent to another endpoint because one could not be reached.", "service"),
		refused:   counter("refused_total", "Requests refused because programs could read them in two ways.", "reason"),
		reloads:   counter("config_reloads_total", "New configurations, by result: success, or partial (a port or a certificate could not be had).", "result"),
		reloaded:  gauge("config_last_reload_timestamp_seconds", "When the configuration last changed."),
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "connections",
			Help: "Open connections of clients, by port."}, []string{"port"}),
		turnedAway: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "connections_turned_away_total",
			Help: "Connections closed at once because of --max-connections."}),
		upgraded: gauge("upgraded_connections", "Open connections that were upgraded, such as WebSockets."),
		inFlight: gauge("requests_in_flight", "Requests being answered."),
	}
	m.registry.MustRegister(m.requests, m.durations, m.bytes, m.endpoints, m.waits, m.retries, m.refused, m.reloads,
		m.reloaded, m.connections, m.turnedAway, m.upgraded, m.inFlight)
	return m
}

// endpointSeries are the counts of one endpoint.
type endpointSeries struct {
	answered, connect, failed prometheus.Counter
}

func (m *metrics) endpoint(service, at string) endpointSeries {
	return endpointSeries{
		answered: m.endpoints.WithLabelValues(service, at, "answered"),
		connect:  m.endpoints.WithLabelValues(service, at, "connect"),
		failed:   m.endpoints.WithLabelValues(service, at, "failed"),
	}
}

func (m *metrics) forgetEndpoint(service, at string) {
	m.endpoints.DeletePartialMatch(prometheus.Labels{"service": service, "endpoint": at})
}

// seriesKey names the series of a rule's host and a Service.
type seriesKey struct{ host, service string }

// routeSeries find the series of one route without asking Prometheus each time.
type routeSeries struct {
	route string
	found sync.Map // seriesKey → *series
}

// series are those of one route, host and Service.
type series struct {
	key      seriesKey
	route    string
	counts   sync.Map // uint32: method and status → prometheus.Counter
	duration prometheus.Observer
	bytes    prometheus.Counter
	wait     prometheus.Observer
}

func (m *metrics) of(r *routeSeries, key seriesKey) *series {
	if s, ok := r.found.Load(key); ok {
		return s.(*series)
	}
	s, _ := r.found.LoadOrStore(key, &series{
		key: key, route: r.route,
		duration: m.durations.WithLabelValues(key.host, r.route, key.service),
		bytes:    m.bytes.WithLabelValues(key.host, r.route, key.service),
		wait:     m.waits.WithLabelValues(key.service),
	})
	return s.(*series)
}

// observe counts a request that has been answered.
func (m *metrics) observe(s *series, method string, code int, sent int64, took time.Duration) {
	index := methodIndex(method)
	key := uint32(index)<<16 | uint32(code)
	c, ok := s.counts.Load(key)
	if !ok {
		c, _ = s.counts.LoadOrStore(key, m.requests.WithLabelValues(s.key.host, s.route, s.key.service, methodNames()[index], strconv.Itoa(code)))
	}
	c.(prometheus.Counter).Inc()
	s.duration.Observe(took.Seconds())
	s.bytes.Add(float64(sent))
}

// methodNames are the values of the label; a client may send any other word.
func methodNames() [10]string {
	return [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "other"}
}

func methodIndex(method string) int {
	names := methodNames()
	for i, name := range names {
		if name == method {
			return i
		}
	}
	return len(names) - 1
}

// forget removes the series of routes and Services that are no longer served.
func (m *metrics) forget(gone map[[2]string]bool) {
	for pair := range gone {
		labels := prometheus.Labels{"route": pair[0], "service": pair[1]}
		m.requests.DeletePartialMatch(labels)
		m.durations.DeletePartialMatch(labels)
		m.bytes.DeletePartialMatch(labels)
	}
}

// served are the pairs of route and Service of a Config.
func served(c ingress.Config) map[[2]string]bool {
	pairs := map[[2]string]bool{}
	eachRoute(c, func(r *ingress.Route) {
		pairs[[2]string{r.Object.String(), ""}] = true
		for _, share := range r.Split {
			pairs[[2]string{r.Object.String(), share.Backend.Service.String()}] = true
		}
	})
	return pairs
}
