package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toyproxy/toyproxy/dataplane/meter"
)

// traffic tells what Service ports carry, as of the moment somebody asks.
type traffic struct {
	meter                               Meter
	connections, active, packets, bytes *prometheus.Desc
	lost, overflows, uncounted          *prometheus.Desc
	flows, took                         *prometheus.Desc
}

func newTraffic(m Meter) traffic {
	port := []string{"namespace", "service", "port_name", "protocol"}
	both := append(port[:len(port):len(port)], "direction")
	desc := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(ours, "", name), help, labels, nil)
	}
	return traffic{
		meter:       m,
		connections: desc("service_connections_total", "Connections of a Service port, and UDP flows.", port),
		active:      desc("service_connections_active", "Connections of a Service port that are open, and UDP flows that are remembered.", port),
		packets:     desc("service_packets_total", "Packets of a Service port: in from clients, out from endpoints.", both),
		bytes:       desc("service_bytes_total", "Bytes of whole IP packets of a Service port: in from clients, out from endpoints.", both),
		lost:        desc("flow_counts_lost_total", "Flows whose last count is not known.", nil),
		overflows:   desc("flow_events_overflows_total", "How often flows ended faster than could be read.", nil),
		uncounted:   desc("flows_uncounted_total", "Connections whose packets the kernel does not count.", nil),
		flows:       desc("flows_tracked", "Flows that the kernel tracks, of whomever, as of the last dump.", nil),
		took:        desc("flow_dump_duration_seconds", "How long the last dump of all tracked flows took.", nil),
	}
}

// Describe implements prometheus.Collector.
func (t traffic) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{t.connections, t.active, t.packets, t.bytes, t.lost, t.overflows, t.uncounted, t.flows, t.took} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (t traffic) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	s := t.meter.Stats()
	send(t.lost, prometheus.CounterValue, float64(s.Lost))
	send(t.overflows, prometheus.CounterValue, float64(s.Overflows))
	send(t.uncounted, prometheus.CounterValue, float64(s.Uncounted))
	send(t.flows, prometheus.GaugeValue, float64(s.Flows))
	send(t.took, prometheus.GaugeValue, s.Took.Seconds())
	for _, l := range t.meter.Lines() {
		labels := portLabels(l)
		send(t.connections, prometheus.CounterValue, float64(l.Connections), labels...)
		send(t.active, prometheus.GaugeValue, float64(l.Active), labels...)
		in, out := append(labels[:len(labels):len(labels)], "in"), append(labels[:len(labels):len(labels)], "out")
		send(t.packets, prometheus.CounterValue, float64(l.In.Packets), in...)
		send(t.packets, prometheus.CounterValue, float64(l.Out.Packets), out...)
		send(t.bytes, prometheus.CounterValue, float64(l.In.Bytes), in...)
		send(t.bytes, prometheus.CounterValue, float64(l.Out.Bytes), out...)
	}
}

// portLabels takes the origin of a Service port apart: "namespace/name:port".
func portLabels(l meter.Line) []string {
	service, port, _ := strings.Cut(l.Service, ":")
	namespace, name, _ := strings.Cut(service, "/")
	return []string{namespace, name, port, l.Protocol.String()}
}
