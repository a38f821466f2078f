package metrics

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Traffic is what metrics tell of a port of a Service.
type Traffic struct {
	// Port is its name, if it has one.
	Port, Protocol                         string
	Connections, Active, BytesIn, BytesOut float64
}

// ReadTraffic reads, from what /metrics has answered, what the ports of one Service have
// carried, by port and protocol; nothing when nothing counts.
func ReadTraffic(answer io.Reader, namespace, service string) ([]Traffic, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	ports := map[[2]string]*Traffic{}
	for name, field := range map[string]func(*Traffic, map[string]string) *float64{
		"service_connections_total":  func(t *Traffic, _ map[string]string) *float64 { return &t.Connections },
		"service_connections_active": func(t *Traffic, _ map[string]string) *float64 { return &t.Active },
		"service_bytes_total": func(t *Traffic, labels map[string]string) *float64 {
			if labels["direction"] == "in" {
				return &t.BytesIn
			}
			return &t.BytesOut
		},
	} {
		for _, m := range families[ours+"_"+name].GetMetric() {
			labels := labelsOf(m)
			if labels["namespace"] != namespace || labels["service"] != service {
				continue
			}
			key := [2]string{labels["port_name"], labels["protocol"]}
			if ports[key] == nil {
				ports[key] = &Traffic{Port: key[0], Protocol: key[1]}
			}
			*field(ports[key], labels) = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	out := make([]Traffic, 0, len(ports))
	for _, t := range ports {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b Traffic) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return out, nil
}

func labelsOf(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}
