package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/metrics"
	"github.com/toyproxy/toyproxy/top"
)

// trafficWait is how long describe waits for run to answer.
const trafficWait = 500 * time.Millisecond

// describeTraffic prints what a Service has carried since run began, if run answers on
// its usual port.
func describeTraffic(w io.Writer, s *corev1.Service) error {
	ctx, cancel := context.WithTimeout(context.Background(), trafficWait)
	defer cancel()
	var lines []string
	for _, t := range askTraffic(ctx, s) {
		port := strings.ToUpper(t.Protocol)
		if t.Port != "" {
			port = t.Port + "  " + port
		}
		lines = append(lines, fmt.Sprintf("%s  %.0f connections (%.0f open), %s in, %s out, since run began",
			port, t.Connections, t.Active, top.Volume(t.BytesIn), top.Volume(t.BytesOut)))
	}
	if len(lines) == 0 {
		return nil
	}
	c := newColumns(w)
	c.list("Traffic:         ", lines)
	return c.flush()
}

// askTraffic asks run; nothing when it does not run, or does not count.
func askTraffic(ctx context.Context, s *corev1.Service) []metrics.Traffic {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+defaultMetricsAddress+"/metrics", nil)
	if err != nil {
		return nil
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	traffic, err := metrics.ReadTraffic(resp.Body, s.Namespace, s.Name)
	if err != nil {
		return nil // somebody else has the port
	}
	return traffic
}
