package nftables

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestStrays proves which segments of no connection are dropped, and that those
// are all told by what can only be ours.
func TestStrays(t *testing.T) {
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, text := range texts {
			out = append(out, netip.MustParsePrefix(text))
		}
		return out
	}
	const toFrontend = "ip daddr . meta l4proto . th dport @frontends drop"
	for _, tc := range []struct {
		name string
		node dataplane.Node
		want []string
	}{
		{"nothing is known", dataplane.Node{}, []string{toFrontend}},
		{"ranges", dataplane.Node{PodRanges: prefixes("10.244.0.0/16"), ServiceRanges: prefixes("10.96.0.0/12")},
			[]string{"ip saddr 10.244.0.0/16 drop", "ip daddr 10.96.0.0/12 drop", toFrontend}},
		{"ranges of the other family", dataplane.Node{PodRanges: prefixes("fd00:10:244::/56"), ServiceRanges: prefixes("fd00:10:96::/112")}, []string{toFrontend}},
		{"links", dataplane.Node{PodRanges: prefixes("10.244.0.0/16"), PodInterfaces: []string{"br0", "cali+"}},
			[]string{`iifname "br0" drop`, `iifname "cali*" drop`, toFrontend}},
		{"everything is a Pod", dataplane.Node{PodRanges: prefixes("0.0.0.0/0")}, []string{toFrontend}},
		{"every link is a Pod's", dataplane.Node{PodInterfaces: []string{"+"}}, []string{toFrontend}},
		{"every address is a Service's", dataplane.Node{ServiceRanges: prefixes("0.0.0.0/0")}, []string{toFrontend}},
	} {
		table := dataplane.Table{Node: tc.node}
		tables.ClusterIP(&table, "default/web:http", "10.96.0.10:80", dataplane.TCP, "10.244.0.5:8080")
		var strays, leads []string
		for _, c := range build(table, dataplane.IPv4).chains {
			for _, r := range c.rules {
				switch text := r.text(dataplane.IPv4); {
				case c.name == straysChain:
					strays = append(strays, text)
				case strings.Contains(text, straysChain):
					leads = append(leads, c.hook.kind+" "+c.hook.name+": "+text)
				}
			}
		}
		if got, want := strings.Join(strays, "\n"), strings.Join(tc.want, "\n"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, want)
		}
		const lead = ": ct state invalid meta l4proto tcp goto strays"
		if got, want := strings.Join(leads, "\n"), "filter input"+lead+"\nfilter forward"+lead; got != want {
			t.Errorf("%s: led there by\n%s\nwant\n%s", tc.name, got, want)
		}
	}
}
