package server

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dns"
	"github.com/toyproxy/toyproxy/dns/forward"
)

var pageRow = regexp.MustCompile("(?m)^\\| `(toyproxy_\\w+)` \\| (\\w+) \\| ([^|]*) \\| [^|]+ \\|$")

// TestPage proves that docs/dns.md has every metric with its type and labels, and none
// that does not exist.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "dns.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]string{}
	for _, m := range pageRow.FindAllStringSubmatch(string(text), -1) {
		page[m[1]] = strings.TrimSpace(m[2] + " " + strings.ReplaceAll(m[3], "`", ""))
	}
	if told := toldMetrics(t); !maps.Equal(told, page) {
		for _, name := range slices.Sorted(maps.Keys(told)) {
			if told[name] != page[name] {
				t.Errorf("%s: %q, the page says %q", name, told[name], page[name])
			}
			delete(page, name)
		}
		for name := range page {
			t.Errorf("the page has %s, which does not exist", name)
		}
	}
}

// toldMetrics lists all metrics, each with its type and labels: those of a server that
// everything has happened to.
func toldMetrics(t *testing.T) map[string]string {
	t.Helper()
	m := NewMetrics(":53", "cluster.local")
	m.CountCache(forward.New(forward.Config{Now: time.Now}))
	m.note(&exchange{client: addrPort("10.244.0.5:1"), by: byZone}, 100, time.Millisecond)
	m.cached(forward.Reply{Cached: true, Rcode: mdns.RcodeNameError}, nil)
	m.cached(forward.Reply{}, nil)
	m.Exchanged(forward.Exchange{To: netip.MustParseAddrPort("192.0.2.53:53"), Err: errors.New("none")})
	m.changed([]cluster.Event{{Object: cluster.MakeRef(cluster.Service, "default", "web")}}, []dns.Change{{}})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), namespace+"_") {
			continue
		}
		labels := map[string]bool{}
		for _, metric := range f.Metric {
			for _, l := range metric.Label {
				labels[l.GetName()] = true
			}
		}
		out[f.GetName()] = strings.TrimSpace(strings.ToLower(f.GetType().String()) + " " + strings.Join(slices.Sorted(maps.Keys(labels)), " "))
	}
	return out
}
