package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
	"github.com/toyproxy/toyproxy/dataplane/meter"
)

// TestReadTraffic: what the handler tells is read back.
func TestReadTraffic(t *testing.T) {
	line := func(service string, p dataplane.Protocol, n uint64) meter.Line {
		return meter.Line{Service: service, Protocol: p, Count: meter.Count{Connections: n, Active: int(n + 1),
			In: conntrack.Volume{Bytes: n + 2}, Out: conntrack.Volume{Bytes: n + 3}}}
	}
	r := newRecorder(&counted{lines: []meter.Line{line("default/dns:dns", dataplane.UDP, 10), line("default/dns:dns-tcp", dataplane.TCP, 20),
		line("other/dns", dataplane.UDP, 30)}})
	w := httptest.NewRecorder()
	r.Handler(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	got, err := ReadTraffic(w.Body, "default", "dns")
	want := []Traffic{
		{Port: "dns", Protocol: "udp", Connections: 10, Active: 11, BytesIn: 12, BytesOut: 13},
		{Port: "dns-tcp", Protocol: "tcp", Connections: 20, Active: 21, BytesIn: 22, BytesOut: 23},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v; traffic (-want +got):\n%s", err, diff)
	}
	if got, err := ReadTraffic(strings.NewReader(""), "default", "dns"); err != nil || len(got) != 0 {
		t.Errorf("of nothing: %v, error %v", got, err)
	}
	if _, err := ReadTraffic(strings.NewReader("<html>"), "default", "dns"); err == nil {
		t.Error("no error for what is no metrics")
	}
}
