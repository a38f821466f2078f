package server

import (
	"net/http"
	"strings"
	"sync"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dns"
	"github.com/toyproxy/toyproxy/dns/forward"
)

// Metrics are what a server tells Prometheus: under the names, and with the labels,
// that CoreDNS has, but with the prefix toyproxy.
type Metrics struct {
	registry *prometheus.Registry
	server   string
	domain   string

	requests, responses         *prometheus.CounterVec
	duration                    *prometheus.HistogramVec
	requestSize, responseSize   *prometheus.HistogramVec
	panics                      prometheus.Counter
	hits, misses                *prometheus.CounterVec
	forwarded, forwardResponses *prometheus.CounterVec
	forwardDuration             *prometheus.HistogramVec
	records                     *prometheus.CounterVec
	events                      *prometheus.CounterVec

	// mu guards the series, which are looked up by less than their labels.
	mu       sync.RWMutex
	asked    map[askedKey]asked
	answered map[answeredKey]prometheus.Counter
}

type askedKey struct {
	kind      uint16
	overTCP   bool
	ipv6, own bool
}

type asked struct {
	requests                            prometheus.Counter
	duration, requestSize, responseSize prometheus.Observer
}

type answeredKey struct {
	by    string
	rcode int
	own   bool
}

const namespace = "toyproxy"

// sizes are the buckets of packets' lengths that CoreDNS has.
func sizes() []float64 {
	return []float64{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3}
}

// NewMetrics returns the metrics of a server of a domain that listens on an address.
func NewMetrics(listen, domain string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), server: "dns://" + listen, domain: strings.ToLower(mdns.Fqdn(domain)),
		asked: map[askedKey]asked{}, answered: map[answeredKey]prometheus.Counter{}}
	count := func(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	spread := func(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(v)
		return v
	}
	times := prometheus.ExponentialBuckets(0.00025, 2, 16)
	m.requests = count("dns", "requests_total", "Queries, by how and for what they were asked.", "server", "zone", "view", "proto", "family", "type")
	m.responses = count("dns", "responses_total", "Replies, by response code and by who answered.", "server", "zone", "view", "rcode", "plugin")
	m.duration = spread("dns", "request_duration_seconds", "Time from a query to its reply.", times, "server", "zone", "view")
	m.requestSize = spread("dns", "request_size_bytes", "Length of queries.", sizes(), "server", "zone", "view", "proto")
	m.responseSize = spread("dns", "response_size_bytes", "Length of replies.", sizes(), "server", "zone", "view", "proto")
	m.panics = count("", "panics_total", "Queries that showed a fault of this program.").WithLabelValues()
	m.hits = count("cache", "hits_total", "Queries for other names answered from the cache, by whether the answer denies.", "server", "type", "zones", "view")
	m.misses = count("cache", "misses_total", "Queries for other names that resolvers were asked for.", "server", "zones", "view")
	m.forwarded = count("forward", "requests_total", "Queries sent to each resolver.", "to")
	m.forwardResponses = count("forward", "responses_total", "Answers of each resolver, by response code; rcode ERROR: no answer.", "to", "rcode")
	m.forwardDuration = spread("forward", "request_duration_seconds", "Time until each resolver answered, or was given up.", times, "to", "rcode")
	m.records = count("dns", "record_changes_total", "Records that came into the zone and went.", "operation")
	m.events = count("dns", "object_events_total", "Objects that came, changed or went, by kind.", "kind", "operation")
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// CountCache tells how many answers a forwarder keeps.
func (m *Metrics) CountCache(f *forward.Forwarder) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: "cache", Name: "entries", Help: "Answers kept."},
		func() float64 { return float64(f.Cached()) }))
}

// Exchanged takes note of an exchange with a resolver.
func (m *Metrics) Exchanged(e forward.Exchange) {
	to, rcode := e.To.String(), rcodeName(e.Rcode)
	if e.Err != nil {
		rcode = "ERROR"
	}
	m.forwarded.WithLabelValues(to).Inc()
	m.forwardResponses.WithLabelValues(to, rcode).Inc()
	m.forwardDuration.WithLabelValues(to, rcode).Observe(e.Took.Seconds())
}

// cached takes note of whether the cache had the answer for another name.
func (m *Metrics) cached(r forward.Reply, err error) {
	switch {
	case err != nil || !r.Cached:
		m.misses.WithLabelValues(m.server, ".", "").Inc()
	case r.Rcode == mdns.RcodeSuccess && len(r.Answer) > 0:
		m.hits.WithLabelValues(m.server, "success", ".", "").Inc()
	default:
		m.hits.WithLabelValues(m.server, "denial", ".", "").Inc()
	}
}

// changed takes note of changes of the zone.
func (m *Metrics) changed(events []cluster.Event, changes []dns.Change) {
	for _, e := range events {
		operation := "modified"
		if e.Old == nil {
			operation = "added"
		} else if e.New == nil {
			operation = "deleted"
		}
		m.events.WithLabelValues(string(e.Object.Kind), operation).Inc()
	}
	for _, c := range changes {
		m.records.WithLabelValues("added").Add(float64(len(c.Added)))
		m.records.WithLabelValues("removed").Add(float64(len(c.Removed)))
	}
}

// note takes note of an exchange that ended.
func (m *Metrics) note(x *exchange, bytes int, took time.Duration) {
	own := x.by == byZone
	series := m.askedSeries(askedKey{x.question.Qtype, x.overTCP, x.client.Addr().Unmap().Is6(), own})
	series.requests.Inc()
	series.duration.Observe(took.Seconds())
	series.requestSize.Observe(float64(x.length))
	series.responseSize.Observe(float64(bytes))
	m.answeredSeries(answeredKey{x.by, x.reply.Rcode, own}).Inc()
}

// zone is the zone of a query, as a label.
func (m *Metrics) zone(own bool) string {
	if own {
		return m.domain
	}
	return "."
}

func (m *Metrics) askedSeries(k askedKey) asked {
	m.mu.RLock()
	series, ok := m.asked[k]
	m.mu.RUnlock()
	if ok {
		return series
	}
	proto, family, zone := "udp", "1", m.zone(k.own) // families as CoreDNS numbers them
	if k.overTCP {
		proto = "tcp"
	}
	if k.ipv6 {
		family = "2"
	}
	series = asked{
		requests:     m.requests.WithLabelValues(m.server, zone, "", proto, family, typeLabel(k.kind)),
		duration:     m.duration.WithLabelValues(m.server, zone, ""),
		requestSize:  m.requestSize.WithLabelValues(m.server, zone, "", proto),
		responseSize: m.responseSize.WithLabelValues(m.server, zone, "", proto),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[k] = series
	return series
}

func (m *Metrics) answeredSeries(k answeredKey) prometheus.Counter {
	m.mu.RLock()
	series := m.answered[k]
	m.mu.RUnlock()
	if series != nil {
		return series
	}
	series = m.responses.WithLabelValues(m.server, m.zone(k.own), "", rcodeName(k.rcode), k.by)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answered[k] = series
	return series
}

// typeLabel names common types, and the others together: clients must not be able to
// make any number of series.
func typeLabel(kind uint16) string {
	switch kind {
	case mdns.TypeA, mdns.TypeAAAA, mdns.TypeSRV, mdns.TypePTR, mdns.TypeCNAME, mdns.TypeSOA, mdns.TypeNS, mdns.TypeTXT, mdns.TypeMX,
		mdns.TypeANY, mdns.TypeHTTPS, mdns.TypeSVCB, mdns.TypeNAPTR, mdns.TypeDS, mdns.TypeDNSKEY, mdns.TypeRRSIG, mdns.TypeNSEC:
		return mdns.TypeToString[kind]
	}
	return "other"
}
