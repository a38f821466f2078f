package ipvs

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// What becomes of a real server that nobody wants, by what the kernel tells.
func TestFate(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(ago time.Duration) uint32 { return uint32(now.Add(-ago).Unix()) }
	for name, c := range map[string]struct {
		protocol dataplane.Protocol
		limit    time.Duration
		held     realServer
		want     fate
	}{
		"idle":                {dataplane.TCP, time.Minute, realServer{weight: 1}, remove},
		"in use":              {dataplane.TCP, time.Minute, realServer{weight: 1, open: 1}, drain},
		"weight 0 by hand":    {dataplane.TCP, time.Minute, realServer{open: 1}, drain},
		"a limit by hand":     {dataplane.TCP, time.Minute, realServer{weight: 1, open: 1, began: 50}, drain},
		"drains":              {dataplane.TCP, time.Minute, realServer{open: 1, began: at(59 * time.Second)}, wait},
		"has drained":         {dataplane.TCP, time.Minute, realServer{began: at(time.Second)}, remove},
		"limit":               {dataplane.TCP, time.Minute, realServer{open: 1, began: at(time.Minute)}, remove},
		"clock put back":      {dataplane.TCP, time.Minute, realServer{open: 1, began: at(-time.Hour)}, drain},
		"UDP":                 {dataplane.UDP, time.Minute, realServer{weight: 1, open: 1}, remove},
		"SCTP":                {dataplane.SCTP, time.Minute, realServer{weight: 1, open: 1}, remove},
		"no draining":         {dataplane.TCP, -1, realServer{weight: 1, open: 1}, remove},
		"of another's making": {dataplane.TCP, time.Minute, realServer{weight: 1, open: 1, foreign: tunnelling}, remove},
	} {
		v := virtualServer{flows: c.protocol}
		if got, reason := (target{drainLimit: c.limit}).fate(v, c.held, now); got != c.want {
			t.Errorf("%s: fate %d (%s), want %d", name, got, reason, c.want)
		}
	}
	v := virtualServer{flows: dataplane.TCP, scheduler: "dh"}
	if got, _ := (target{drainLimit: time.Minute}).fate(v, realServer{weight: 1, open: 1}, now); got != remove {
		t.Errorf("scheduler dh, which would choose it still: fate %d, want %d", got, remove)
	}
}

// An endpoint that leaves: what a plan says, in the course of time.
func TestDrainPlans(t *testing.T) {
	table := table(frontend("10.96.0.1", 80))
	full := newTarget(table, dataplane.IPv4, "rr")
	have := holding(full)
	have.now = time.Unix(1_800_000_000, 0)
	id := full.servers[0].serverID
	gone := netip.MustParseAddrPort("10.244.9.9:8080")
	hold := func(r realServer) {
		r.addr = spotOf(gone)
		v := full.servers[0]
		v.real = append(v.real[:len(v.real):len(v.real)], r)
		have.servers[id] = &v
	}
	check := func(want target, changes, remarks string) {
		t.Helper()
		want.drainLimit = time.Minute
		var got []string
		for s := range append(before(want, have), after(want, have)...).all() {
			if _, ok := s.action.(setEntry); !ok {
				got = append(got, s.change().String())
			}
		}
		if text := strings.Join(got, "\n"); text != changes {
			t.Errorf("changes\n%s\nwant\n%s", text, changes)
		}
		if text := strings.Join(draining(want, have), "\n"); text != remarks {
			t.Errorf("remarks\n%s\nwant\n%s", text, remarks)
		}
	}
	const object = "real server 10.244.9.9:8080 of tcp 10.96.0.1:80"
	hold(realServer{weight: 1, open: 2})
	check(full, "~ "+object+" for default/web: real server not wanted: time for 2 connections to end, 1m0s at most", "")
	hold(realServer{open: 1, began: 1_800_000_000 - 20})
	check(full, "", object+" drains: 1 connection, for 40s at most")
	hold(realServer{began: 1_800_000_000 - 20})
	check(full, "- "+object+" for default/web: real server not wanted, and all its connections have ended", "")
	hold(realServer{open: 1, began: 1_800_000_000 - 60})
	check(full, "- "+object+" for default/web: real server not wanted: time is up for 1 connection, after 1m0s", "")

	// The last endpoint leaves: the frontend is there to refuse.
	table.Frontends[0].Routes = [dataplane.Sources]dataplane.Route{{Verdict: dataplane.Refuse}, {Verdict: dataplane.Refuse}, {Verdict: dataplane.Refuse}}
	empty := newTarget(table, dataplane.IPv4, "rr")
	one := func(r realServer) {
		r.addr = spotOf(gone)
		v := full.servers[0]
		v.real = []realServer{r}
		have.servers[id] = &v
	}
	one(realServer{weight: 1, open: 1})
	check(empty, "~ "+object+" for default/web: real server not wanted: time for 1 connection to end, 1m0s at most", "")
	one(realServer{open: 1, began: 1_800_000_000})
	check(empty, "", object+" drains: 1 connection, for 1m0s at most")
	one(realServer{began: 1_800_000_000})
	check(empty, "- virtual server tcp 10.96.0.1:80 for default/web: virtual server not wanted", "")
}
