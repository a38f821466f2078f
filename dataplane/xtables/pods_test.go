package xtables

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
)

// TestPodToPod proves which packets are those of Pods to Pods: by ranges, or by
// links where the node has any; and that no link's name is longer than the kernel
// and the tools allow.
func TestPodToPod(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("10.244.1.0/24")}
	for _, tc := range []struct {
		name string
		node dataplane.Node
		want []string
	}{
		{"nothing known", dataplane.Node{}, nil},
		{"all addresses", dataplane.Node{PodRanges: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, nil},
		{"ranges", dataplane.Node{PodRanges: ranges}, []string{
			"-s 10.244.0.0/24 -d 10.244.0.0/24", "-s 10.244.0.0/24 -d 10.244.1.0/24",
			"-s 10.244.1.0/24 -d 10.244.0.0/24", "-s 10.244.1.0/24 -d 10.244.1.0/24"}},
		{"a bridge", dataplane.Node{PodRanges: ranges, PodInterfaces: []string{"br0"}}, []string{"-i br0 -o br0"}},
		{"names that begin so", dataplane.Node{PodInterfaces: []string{"cali+"}}, []string{"-i cali+ -o cali+"}},
		{"the longest name", dataplane.Node{PodInterfaces: []string{"abcdefghijklmno+"}}, []string{"-i abcdefghijklmno -o abcdefghijklmno"}},
	} {
		if diff := cmp.Diff(tc.want, PodToPod(tc.node)); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}
