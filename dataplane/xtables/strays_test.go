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
		want string
	}{
		{"nothing is known", dataplane.Node{}, ""},
		{"ranges", dataplane.Node{PodRanges: prefixes("10.244.0.0/16"), ServiceRanges: prefixes("10.96.0.0/12")},
			"-s 10.244.0.0/16 -p tcp -j DROP\n-d 10.96.0.0/12 -p tcp -j DROP"},
		{"links", dataplane.Node{PodRanges: prefixes("10.244.0.0/16"), PodInterfaces: []string{"cali+"}}, "-i cali+ -p tcp -j DROP"},
		{"everything is a Pod", dataplane.Node{PodRanges: prefixes("0.0.0.0/0")}, ""},
	} {
		chains, jumps := Strays(tc.node)
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
