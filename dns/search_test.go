package dns

import (
	"slices"
	"strings"
	"testing"
)

// Field fault 101: names of every depth, with and without a final dot, and long
// search lists.
func TestCandidates(t *testing.T) {
	pod := []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local"}
	for _, tc := range []struct {
		name   string
		search []string
		ndots  int
		want   string
	}{
		{"ledger", pod, 5, "ledger.default.svc.cluster.local. ledger.svc.cluster.local. ledger.cluster.local. ledger."},
		{"ledger.shop", pod, 5, "ledger.shop.default.svc.cluster.local. ledger.shop.svc.cluster.local. ledger.shop.cluster.local. ledger.shop."},
		{"a.b.c.d.e", pod, 5, "a.b.c.d.e.default.svc.cluster.local. a.b.c.d.e.svc.cluster.local. a.b.c.d.e.cluster.local. a.b.c.d.e."},
		{"a.b.c.d.e.f", pod, 5, "a.b.c.d.e.f. a.b.c.d.e.f.default.svc.cluster.local. a.b.c.d.e.f.svc.cluster.local. a.b.c.d.e.f.cluster.local."},
		{"ledger.", pod, 5, "ledger."},
		{"a.b.c.d.e.f.", pod, 5, "a.b.c.d.e.f."},
		{"www.example.com", []string{"one."}, 1, "www.example.com. www.example.com.one."},
		{"www", nil, 1, "www."},
		{"x", strings.Fields("a b c d e f g"), 1, "x.a. x.b. x.c. x.d. x.e. x.f. x.g. x."},
		{"x", []string{".", ""}, 1, "x."},
	} {
		if got := Candidates(tc.name, tc.search, tc.ndots); !slices.Equal(got, strings.Fields(tc.want)) {
			t.Errorf("%s, %v, ndots %d: %v", tc.name, tc.search, tc.ndots, got)
		}
	}
}
