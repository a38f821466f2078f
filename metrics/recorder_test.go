package metrics

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
	"github.com/toyproxy/toyproxy/dataplane/meter"
	"github.com/toyproxy/toyproxy/test/tables"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// counted is a meter with fixed lines, which notes what it is told.
type counted struct {
	lines []meter.Line
	stats meter.Stats
	told  []string
}

func (c *counted) Set(t dataplane.Table) {
	c.told = append(c.told, fmt.Sprint("table of ", len(t.Frontends)))
}
func (c *counted) Change(d dataplane.Delta) {
	c.told = append(c.told, fmt.Sprint("change of ", len(d.After.Frontends)))
}
func (c *counted) Lines() []meter.Line { return c.lines }
func (c *counted) Stats() meter.Stats  { return c.stats }

func newRecorder(m Meter) *Recorder {
	return New(Config{Version: "v1", GoVersion: "go1", Families: []dataplane.Family{dataplane.IPv4, dataplane.IPv6}, Meter: m})
}

// values returns what a recorder tells, but for the program itself: by name and
// labels, of histograms their count and sum.
func values(t *testing.T, r *Recorder) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, f := range families(t, r) {
		for _, m := range f.Metric {
			key := f.GetName() + labelText(m)
			switch {
			case m.Histogram != nil:
				out[key+" count"], out[key+" sum"] = float64(m.Histogram.GetSampleCount()), m.Histogram.GetSampleSum()
			case m.Counter != nil:
				out[key] = m.Counter.GetValue()
			default:
				out[key] = m.Gauge.GetValue()
			}
		}
	}
	return out
}

// families are those metrics that are not the Go runtime's or the process's.
func families(t *testing.T, r *Recorder) []*dto.MetricFamily {
	t.Helper()
	all, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return !strings.HasPrefix(f.GetName(), ours) && !strings.HasPrefix(f.GetName(), kubeProxy)
	})
}

func labelText(m *dto.Metric) string {
	var parts []string
	for _, l := range m.Label {
		parts = append(parts, l.GetName()+"="+l.GetValue())
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// require compares some of the values.
func require(t *testing.T, r *Recorder, want map[string]float64) {
	t.Helper()
	got := values(t, r)
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[k]; !ok || v-want[k] > 1e-6 || want[k]-v > 1e-6 {
			t.Errorf("%s: %v, want %v (told: %v)", k, v, want[k], ok)
		}
	}
}

// absent requires that no metric of these beginnings is told.
func absent(t *testing.T, r *Recorder, begins ...string) {
	t.Helper()
	for k := range values(t, r) {
		for _, b := range begins {
			if strings.HasPrefix(k, b) {
				t.Errorf("%s is told", k)
			}
		}
	}
}

func TestPasses(t *testing.T) {
	r := newRecorder(nil)
	r.Observe(agent.Report{Started: begin, Took: 2 * time.Second, Settled: true, Causes: []agent.Cause{agent.Started}, Whole: true, Backend: "nftables", Services: 3,
		Frontends: 7, Endpoints: 5, Pods: 4, ServiceChanges: 3, EndpointChanges: 2})
	r.Waiting(begin.Add(5 * time.Second))
	r.Observe(agent.Report{Started: begin.Add(6 * time.Second), Took: time.Second / 4, Settled: true, Causes: []agent.Cause{agent.PodsChanged, agent.ObjectsChanged},
		Backend: "nftables", EndpointChanges: 1, Oldest: begin.Add(5 * time.Second), Flows: 9, Restarts: 2, PodsMade: 1, PodsEnded: 3, Rolling: 1,
		Changes: []dataplane.Change{{Op: dataplane.Add, Object: "nft ip toyproxy chain x"}, {Op: dataplane.Remove, Object: "virtual server tcp 10.96.0.10:80"}}})
	require(t, r, map[string]float64{
		"kubeproxy_sync_proxy_rules_duration_seconds{ip_family=IPv4} count":        2,
		"kubeproxy_sync_proxy_rules_duration_seconds{ip_family=IPv6} sum":          2.25,
		"kubeproxy_sync_full_proxy_rules_duration_seconds{ip_family=IPv4} sum":     2,
		"kubeproxy_sync_partial_proxy_rules_duration_seconds{ip_family=IPv4} sum":  0.25,
		"kubeproxy_network_programming_duration_seconds{ip_family=IPv4} count":     1,
		"kubeproxy_network_programming_duration_seconds{ip_family=IPv4} sum":       1.25,
		"kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=IPv4}":        float64(begin.Unix()) + 6.25,
		"kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family=IPv6}": float64(begin.Unix()) + 5,
		"kubeproxy_sync_proxy_rules_endpoint_changes_total":                        3,
		"kubeproxy_sync_proxy_rules_endpoint_changes_pending":                      0,
		"kubeproxy_sync_proxy_rules_service_changes_total":                         3,
		"kubeproxy_conntrack_reconciler_deleted_entries_total":                     9,
		"toyproxy_passes_total{cause=start}":                                       1,
		"toyproxy_passes_total{cause=pods}":                                        1,
		"toyproxy_passes_total{cause=objects}":                                     1,
		"toyproxy_audit_last_timestamp_seconds":                                    float64(begin.Unix()) + 2,
		"toyproxy_kernel_changes_total{object=nftables chain,operation=add}":       1,
		"toyproxy_kernel_changes_total{object=virtual server,operation=remove}":    1,
		"toyproxy_backend_info{backend=nftables}":                                  1,
		"toyproxy_build_info{goversion=go1,version=v1}":                            1,
		"toyproxy_container_restarts":                                              2,
		"toyproxy_pods_created_total":                                              1,
		"toyproxy_pods_deleted_total":                                              3,
		"toyproxy_workloads_rolling":                                               1,
		"toyproxy_objects{kind=services}":                                          0,
	})
	absent(t, r, "toyproxy_pass_failures_total", "toyproxy_drift", "kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "toyproxy_service")
}

// TestFailures: what fails is pending, and counted where kube-proxy counts it.
func TestFailures(t *testing.T) {
	drift := []dataplane.Change{{Op: dataplane.Add, Object: "nft ip toyproxy element of map frontends x"}}
	for _, tc := range []struct {
		backend string
		whole   bool
		want    []string
	}{
		{"nftables", true, []string{"kubeproxy_sync_proxy_rules_nftables_sync_failures_total"}},
		{"iptables", true, []string{"kubeproxy_sync_proxy_rules_iptables_restore_failures_total"}},
		{"iptables", false, []string{"kubeproxy_sync_proxy_rules_iptables_restore_failures_total", "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total"}},
		{"ipvs", true, []string{"kubeproxy_sync_proxy_rules_iptables_restore_failures_total"}},
	} {
		t.Run(fmt.Sprint(tc.backend, tc.whole), func(t *testing.T) {
			r := newRecorder(nil)
			pass := agent.Report{Started: begin, Whole: tc.whole, Causes: []agent.Cause{agent.AuditDue}, Backend: tc.backend, EndpointChanges: 2, ServiceChanges: 1,
				Drift: drift, Unrepaired: 1, Err: errors.New("no")}
			r.Observe(pass)
			want := map[string]float64{"toyproxy_pass_failures_total{cause=audit}": 1,
				"kubeproxy_sync_proxy_rules_endpoint_changes_pending": 2, "kubeproxy_sync_proxy_rules_service_changes_pending": 1}
			for _, name := range tc.want {
				want[name+"{ip_family=IPv4}"], want[name+"{ip_family=IPv6}"] = 1, 1
			}
			require(t, r, want)
			absent(t, r, "toyproxy_drift", "kubeproxy_sync_proxy_rules_last_timestamp", "kubeproxy_sync_proxy_rules_duration_seconds{")
			pass.Err, pass.EndpointChanges, pass.ServiceChanges, pass.Unrepaired, pass.Settled, pass.Drift = nil, 0, 0, 0, true, nil
			r.Observe(pass)
			r.Observe(pass)
			require(t, r, map[string]float64{"toyproxy_pass_failures_total{cause=audit}": 1, "toyproxy_drift_repaired_total{object=nftables element}": 1,
				"kubeproxy_sync_proxy_rules_endpoint_changes_pending": 0, "kubeproxy_sync_proxy_rules_service_changes_pending": 0})
		})
	}
}

func TestProblems(t *testing.T) {
	r := newRecorder(nil)
	wrong := cluster.Problem{Object: cluster.MakeRef(cluster.Service, "default", "web")}
	odd := wrong
	odd.Warning = true
	r.Observe(agent.Report{Problems: []cluster.Problem{wrong, wrong, odd}})
	require(t, r, map[string]float64{"toyproxy_problems{kind=Service,severity=error}": 2, "toyproxy_problems{kind=Service,severity=warning}": 1})
	r.Observe(agent.Report{Problems: []cluster.Problem{odd}})
	require(t, r, map[string]float64{"toyproxy_problems{kind=Service,severity=error}": 0, "toyproxy_problems{kind=Service,severity=warning}": 1})
}

func TestBackendChange(t *testing.T) {
	r := newRecorder(nil)
	r.Observe(agent.Report{Backend: "ipvs"})
	r.Observe(agent.Report{Backend: "nftables"})
	require(t, r, map[string]float64{"toyproxy_backend_info{backend=nftables}": 1})
	absent(t, r, "toyproxy_backend_info{backend=ipvs}")
}

// TestTables: the meter and the count of Services without local endpoints follow
// the table; an audit alone is no news, but for one after a failure.
func TestTables(t *testing.T) {
	m := &counted{}
	r := newRecorder(m)
	table := tables.Small()
	local := table.Frontends[0]
	local.Routes[dataplane.FromPod] = dataplane.Route{Verdict: dataplane.Drop}
	table.Frontends[0] = local
	one := func(fe dataplane.Frontend) dataplane.Table {
		return dataplane.Table{Frontends: []dataplane.Frontend{fe}}
	}
	audit := []agent.Cause{agent.AuditDue}
	for _, p := range []agent.Report{
		{Settled: true, Whole: true, Table: table, Causes: audit},
		{Settled: true, Whole: true, Table: table, Causes: audit},
		{Settled: true, Delta: dataplane.Delta{Before: one(local), After: one(tables.Small().Frontends[0])}},
		{Whole: true, Err: errors.New("no")},
		{Settled: true, Whole: true, Table: table, Causes: audit},
		{Settled: true, Whole: true, Table: table, Causes: []agent.Cause{agent.AuditDue, agent.ObjectsChanged}},
	} {
		r.Observe(p)
	}
	if got, want := strings.Join(m.told, "; "), "table of 3; change of 1; table of 3; table of 3"; got != want {
		t.Errorf("the meter was told: %s; want: %s", got, want)
	}
	require(t, r, map[string]float64{
		"kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family=IPv4,traffic_policy=internal}": 1,
		"kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family=IPv6,traffic_policy=internal}": 0,
		"kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family=IPv4,traffic_policy=external}": 0,
	})
}

func TestTraffic(t *testing.T) {
	r := newRecorder(&counted{
		lines: []meter.Line{
			{Service: "default/web:http", Protocol: dataplane.TCP, Count: meter.Count{Connections: 3, Active: 1,
				In: conntrack.Volume{Packets: 4, Bytes: 500}, Out: conntrack.Volume{Packets: 6, Bytes: 7000}}},
			{Service: "kube-system/dns", Protocol: dataplane.UDP},
		},
		stats: meter.Stats{Lost: 1, Overflows: 2, Uncounted: 3, Flows: 4, Took: time.Second},
	})
	const web, dns = "namespace=default,port_name=http,protocol=tcp,service=web", "namespace=kube-system,port_name=,protocol=udp,service=dns"
	require(t, r, map[string]float64{
		"toyproxy_service_connections_total{" + web + "}":           3,
		"toyproxy_service_connections_active{" + web + "}":          1,
		"toyproxy_service_packets_total{direction=in," + web + "}":  4,
		"toyproxy_service_packets_total{direction=out," + web + "}": 6,
		"toyproxy_service_bytes_total{direction=in," + web + "}":    500,
		"toyproxy_service_bytes_total{direction=out," + web + "}":   7000,
		"toyproxy_service_connections_total{" + dns + "}":           0,
		"toyproxy_flow_counts_lost_total":                           1,
		"toyproxy_flow_events_overflows_total":                      2,
		"toyproxy_flows_uncounted_total":                            3,
		"toyproxy_flows_tracked":                                    4,
		"toyproxy_flow_dump_duration_seconds":                       1,
	})
}

func TestHandler(t *testing.T) {
	r := newRecorder(nil)
	r.Observe(agent.Report{Backend: "nftables"})
	r.Asked("healthz", 200)
	r.Asked("healthz", 503)
	r.Asked("livez", 200)
	health := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := r.Handler(health)
	for path, want := range map[string]struct {
		code int
		text []string
	}{
		"/metrics": {200, []string{"# TYPE kubeproxy_proxy_healthz_total counter\n", `kubeproxy_proxy_healthz_total{code="503"} 1`,
			`kubeproxy_proxy_livez_total{code="200"} 1`, "go_goroutines ", "process_open_fds "}},
		"/proxyMode": {200, []string{"nftables"}},
		"/healthz":   {http.StatusTeapot, nil},
		"/other":     {404, nil},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		body, _ := io.ReadAll(w.Body)
		if w.Code != want.code {
			t.Errorf("%s: code %d, want %d", path, w.Code, want.code)
		}
		for _, text := range want.text {
			if !strings.Contains(string(body), text) {
				t.Errorf("%s has no %q", path, text)
			}
		}
	}
}
