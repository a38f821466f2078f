package metrics

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/meter"
)

var pageRow = regexp.MustCompile("(?m)^\\| `((?:kubeproxy|toyproxy)_\\w+)` \\| (\\w+) \\| ([^|]*) \\| [^|]+ \\|$")

// TestPage proves that docs/metrics.md has every metric with its type and labels, and
// none that does not exist.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]string{}
	for _, m := range pageRow.FindAllStringSubmatch(string(text), -1) {
		page[m[1]] = m[2] + " " + strings.ReplaceAll(m[3], "`", "")
	}
	if diff := cmp.Diff(told(t), page); diff != "" {
		t.Errorf("metrics (-told +page):\n%s", diff)
	}
}

// told lists all metrics, each with its type and labels: those of a recorder that
// everything has happened to.
func told(t *testing.T) map[string]string {
	t.Helper()
	r := newRecorder(&counted{lines: []meter.Line{{Service: "default/web", Protocol: dataplane.TCP}}})
	r.Asked("healthz", 200)
	r.Asked("livez", 200)
	r.Waiting(begin)
	change := []dataplane.Change{{Object: "Pod default/web"}}
	for _, backend := range []string{"iptables", "nftables"} {
		for _, whole := range []bool{true, false} {
			p := agent.Report{Started: begin, Oldest: begin, Backend: backend, Whole: whole, Causes: []agent.Cause{agent.Started},
				Changes: change, Drift: change, Problems: []cluster.Problem{{}}, Settled: true}
			r.Observe(p)
			p.Err, p.Settled = errors.New("no"), false
			r.Observe(p)
		}
	}
	out := map[string]string{}
	for _, f := range families(t, r) {
		labels := map[string]bool{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels[l.GetName()] = true
			}
		}
		out[f.GetName()] = fmt.Sprintf("%s %s", strings.ToLower(f.GetType().String()), strings.Join(slices.Sorted(maps.Keys(labels)), " "))
	}
	return out
}
