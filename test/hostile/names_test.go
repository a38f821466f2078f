package hostile

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
)

// renderer is a backend as far as these tests need it.
type renderer struct {
	name string
	dataplane.Backend
	// quoted matches what stands for people in a line: comments.
	quoted *regexp.Regexp
}

func renderers() []renderer {
	return []renderer{
		{"iptables", iptables.New(iptables.Config{}), regexp.MustCompile(`--comment ("[^"]*"|\S+)`)},
		{"nftables", nftables.New(nftables.Config{}), regexp.MustCompile(`comment "[^"]*"`)},
		{"ipvs", ipvs.New(ipvs.Config{}), regexp.MustCompile(`--comment ("[^"]*"|\S+)|comment "[^"]*"`)},
	}
}

// hashed matches names that are made of other names: they differ when those do,
// and nothing else may.
var hashed = regexp.MustCompile(`TOY-?[A-Z0-9-]*[A-Z2-7]{8,}|\b[a-z]+-[0-9a-z]{12,}\b`)

// skeleton is what is left of a rendering without the words for people, sorted:
// the order of chains follows their names.
func (r renderer) skeleton(t *testing.T, table dataplane.Table) []string {
	t.Helper()
	text, err := r.Render(table)
	if err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	var out []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# left out:") {
			continue // says the name, and is read by people alone
		}
		out = append(out, hashed.ReplaceAllString(r.quoted.ReplaceAllString(line, ""), "NAME"))
	}
	slices.Sort(out)
	return out
}

// named is a table with one Service of each kind of rule, all with the given
// names, beside one that is nobody's enemy.
func named(service, pod string) dataplane.Table {
	addr := netip.MustParseAddr
	table := dataplane.Table{Node: dataplane.Node{
		PodRanges:     []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
		Addrs:         []netip.Addr{addr("192.0.2.1")},
	}}
	add := func(service string, kind dataplane.Kind, vip string, affinity time.Duration, allowed ...netip.Prefix) {
		set := service + "/" + vip
		route := dataplane.Route{Verdict: dataplane.Forward, Set: set, Masquerade: kind != dataplane.ClusterIP}
		table.Frontends = append(table.Frontends, dataplane.Frontend{
			Key: dataplane.Key{Addr: addr(vip), Protocol: dataplane.TCP, Port: 80}, Kind: kind, Service: service,
			Routes: [dataplane.Sources]dataplane.Route{route, route, route}, Allowed: allowed})
		table.Sets = append(table.Sets, dataplane.EndpointSet{Name: set, Service: service, Affinity: affinity, Protocol: dataplane.TCP,
			Endpoints: []dataplane.Endpoint{
				{Addr: netip.MustParseAddrPort("10.244.0.5:80"), Weight: 1, Local: true, Name: pod},
				{Addr: netip.MustParseAddrPort("10.244.0.6:80"), Weight: 1, Name: pod + "2"},
			}})
	}
	add("default/bystander:http", dataplane.ClusterIP, "10.96.0.1", 0)
	add(service, dataplane.ClusterIP, "10.96.0.2", 0)
	add(service, dataplane.ExternalIP, "203.0.113.2", time.Hour)
	add(service, dataplane.LoadBalancerIP, "203.0.113.3", 0, netip.MustParsePrefix("198.51.100.0/24"))
	table.Sort()
	return table
}

// FuzzNames proves that names of Services and Pods change no rule: with any of
// them, the same rules are rendered as with plain ones, but for comments and for
// names that are made of them. Such names do not pass the checks of manifests;
// this is the second wall.
func FuzzNames(f *testing.F) {
	for _, s := range []string{
		"default/web:http", "/", `x" -j ACCEPT`, "x\n-A INPUT -j ACCEPT\n", `x'; rm -rf /; '`, "x\\", "x\x00y", "COMMIT\n*filter", "ü/ß:☃",
		`x" } ; flush ruleset ; #`, "# x", strings.Repeat("n", 253) + "/" + strings.Repeat("s", 253), "$(reboot)`reboot`", "-t 10.96.0.1:80",
	} {
		f.Add(s, s)
	}
	plain := named("default/plain:http", "default/pod")
	f.Fuzz(func(t *testing.T, service, pod string) {
		if service == "" || service == "default/bystander:http" {
			return // no name, or one that is taken: another table
		}
		for _, r := range renderers() {
			want, got := r.skeleton(t, plain), r.skeleton(t, named(service, pod))
			if !slices.Equal(want, got) {
				t.Errorf("%s: names %q and %q change the rules:\n%s", r.name, service, pod, firstDifference(want, got))
			}
		}
	})
}

func firstDifference(want, got []string) string {
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			return "- " + strings.Join(want[min(i, len(want)):min(i+1, len(want))], "") +
				"+ " + strings.Join(got[min(i, len(got)):min(i+1, len(got))], "")
		}
	}
	return ""
}
