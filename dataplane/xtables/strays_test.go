package xtables

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
)

// TestStrays shows which packets of no connection are dropped: those that can
// only be ours, and no others.
func TestStrays(t *testing.T) {
	prefixes := func(s ...string) (out []netip.Prefix) {
		for _, p := range s {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	for _, tc := range []struct {
		name string
		node dataplane.Node
		ours []string
		want string
	}{
		{"nothing is known", dataplane.Node{}, nil, ""},
		{"ranges", dataplane.Node{PodRanges: prefixes("10.244.0.0/16"), ServiceRanges: prefixes("10.96.0.0/12")}, nil,
			"-s 10.244.0.0/16 -p tcp -j DROP\n-d 10.96.0.0/12 -p tcp -j DROP"},
		{"links", dataplane.Node{PodRanges: prefixes("10.244.0.0/16"), PodInterfaces: []string{"cali+"}}, nil, "-i cali+ -p tcp -j DROP"},
		{"everything is a Pod", dataplane.Node{PodRanges: prefixes("0.0.0.0/0")}, nil, ""},
		{"other addresses", dataplane.Node{}, []string{"-d 192.0.2.1/32 -p tcp -m tcp --dport 30080"}, "-d 192.0.2.1/32 -p tcp -m tcp --dport 30080 -j DROP"},
	} {
		chains, jumps := Strays(tc.node, tc.ours...)
		var rules []string
		for _, c := range chains {
			rules = append(rules, c.Rules...)
			if !Owned(c.Name) {
				t.Errorf("%s is not ours", c.Name)
			}
		}
		if diff := cmp.Diff(tc.want, strings.Join(rules, "\n")); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
		for _, j := range jumps {
			if !strings.HasPrefix(j.Rule, "-m conntrack --ctstate INVALID ") || !ownJump(j.Rule) {
				t.Errorf("%s: jump %s", tc.name, j.Rule)
			}
		}
	}
}
