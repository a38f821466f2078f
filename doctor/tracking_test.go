package doctor

import (
	"strings"
	"testing"
)

const stat = `entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart
00000000  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 0000000a 00000001 00000002 00000000  00000000 00000000 00000000 00000000
00000000  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000006 00000010 00000000 00000000  00000000 00000000 00000000 00000000
`

// TestTracking proves that a table that is nearly full and packets that were
// lost are told, with what to do (faults 30 and 31).
func TestTracking(t *testing.T) {
	for _, tc := range []struct {
		name, count, limit, stat string
		want                     []string
	}{
		{"nothing is tracked", "", "", "", nil},
		{"plenty of room", "12", "262144", "", []string{"ok 12 of 262144 connections"}},
		{"nearly full", "950", "1000", "", []string{"warning 950 of 1000 connections: when it is full new connections are dropped: raise it (sysctl -w net.netfilter.nf_conntrack_max=2000)"}},
		{"losses of all processors", "1", "1000", stat, []string{"ok 1 of 1000 connections", "warning 19 packets were dropped", "note 16 packets were lost"}},
	} {
		got := trackingOf(tc.count, tc.limit, tc.stat)
		if len(got) != len(tc.want) {
			t.Errorf("%s: %d findings, want %d: %v", tc.name, len(got), len(tc.want), got)
			continue
		}
		for i, f := range got {
			text := string(f.Status) + " " + f.Detail
			if f.Mend != "" {
				text += ": " + f.Mend
			}
			if !strings.HasPrefix(text, tc.want[i]) {
				t.Errorf("%s: %q, want %q", tc.name, text, tc.want[i])
			}
		}
	}
}
