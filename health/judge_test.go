package health

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/dataplane"
)

// begin is when the tests' clocks start, limit how patient they are.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const limit = 10 * time.Second

func at(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

func TestJudge(t *testing.T) {
	failed := errors.New("nft: no such table")
	for _, tc := range []struct {
		name            string
		known           Known
		alive, eligible bool
		reason          string
	}{
		{"no pass yet", Known{}, false, true, "nothing has been programmed yet"},
		{"first pass failed", Known{Last: at(9), Failing: at(9), Failure: failed}, false, true, "yet: nft: no such table"},
		{"good pass", Known{Good: at(9), Last: at(9)}, true, true, ""},
		{"failure that may pass", Known{Good: at(0), Last: at(9), Failing: at(1), Failure: failed}, true, true, ""},
		{"failures for long", Known{Good: at(0), Last: at(9), Failing: at(0), Failure: failed}, false, true, "failed for 10s: nft: no such table"},
		{"drift not repaired, at once", Known{Good: at(8), Last: at(9), Failing: at(9), Failure: failed, Unrepaired: 2}, false, true, "changed by others in 2 places"},
		{"silence", Known{Good: at(0), Last: at(0)}, false, true, "no pass has come to its end for 10s"},
		{"change that waits a little", Known{Good: at(9), Last: at(9), Waiting: at(1)}, true, true, ""},
		{"change that waits for long", Known{Good: at(9), Last: at(9), Waiting: at(0)}, false, true, "a change has waited for 10s"},
		{"node is about to go", Known{Good: at(9), Last: at(9), Leaving: "it is being deleted"}, true, false, "about to go: it is being deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Judge(tc.known, at(10), limit)
			if s.Alive != tc.alive || s.Eligible != tc.eligible || s.Healthy() != (tc.alive && tc.eligible) {
				t.Errorf("alive %v, eligible %v, healthy %v", s.Alive, s.Eligible, s.Healthy())
			}
			if got := strings.Join(s.Reasons, "; "); !strings.Contains(got, tc.reason) || (got == "") != (tc.reason == "") {
				t.Errorf("reasons %q, want %q", got, tc.reason)
			}
		})
	}
}

// TestAfter follows a node through a day of passes.
func TestAfter(t *testing.T) {
	failed := errors.New("no")
	drift := []dataplane.Change{{Object: "nftables table"}}
	k := Known{}
	step := func(name string, r agent.Report, alive bool) {
		t.Helper()
		k = k.after(r)
		if s := Judge(k, r.Started.Add(r.Took), limit); s.Alive != alive {
			t.Errorf("%s: alive %v, want %v: %v", name, s.Alive, alive, s.Reasons)
		}
	}
	step("first pass", agent.Report{Started: at(0), Took: time.Second}, true)
	k.Waiting = at(5)
	step("pass that began before the change", agent.Report{Started: at(4), Took: 2 * time.Second}, true)
	if k.Waiting != at(5) {
		t.Errorf("the change that came during a pass is not waiting any more: %v", k.Waiting)
	}
	step("pass with the change", agent.Report{Started: at(6)}, true)
	if !k.Waiting.IsZero() {
		t.Errorf("the change waits since %v after its pass", k.Waiting)
	}
	step("failure", agent.Report{Started: at(7), Err: failed}, true)
	step("failure again", agent.Report{Started: at(12), Err: failed}, true)
	step("failure for too long", agent.Report{Started: at(17), Err: failed}, false)
	step("mended", agent.Report{Started: at(18)}, true)
	step("drift repaired", agent.Report{Started: at(20), Drift: drift}, true)
	step("drift not repaired", agent.Report{Started: at(21), Drift: drift, Unrepaired: 1, Err: failed}, false)
	step("drift not repaired again", agent.Report{Started: at(23), Drift: drift, Unrepaired: 1, Err: failed}, false)
	step("nor by the next pass, which finds the same", agent.Report{Started: at(23), Err: failed}, false)
	step("drift repaired, something else failed", agent.Report{Started: at(24), Drift: drift, Settled: true, Err: failed}, true)
	step("drift in a Pod's network not repaired", agent.Report{Started: at(25), Drift: drift, Unrepaired: 1, Settled: true, Err: failed}, false)
	step("drift repaired after all", agent.Report{Started: at(26), Drift: drift}, true)
}
