package ipvs

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// leaver is a model of a kernel whose rules another backend has replaced.
type leaver struct {
	*testing.T
	model
}

// newLeaver holds a Service at an address of a Service range, at an external one, and
// with other endpoints for those outside.
func newLeaver(t *testing.T) *leaver {
	outer := frontend("203.0.113.7", 80)
	outer.Kind = dataplane.ExternalIP
	split := frontend("10.96.0.2", 80)
	tb := table(frontend("10.96.0.1", 80), outer, split)
	few := tb.Sets[0]
	few.Name, few.Endpoints = "few", few.Endpoints[:1]
	tb.Sets = append(tb.Sets, few)
	for i := range tb.Frontends {
		if tb.Frontends[i].Addr == split.Addr {
			tb.Frontends[i].Routes[dataplane.FromOutside].Set = few.Name
		}
	}
	tb.Sort()
	l := &leaver{t, model{observed: holding(newTarget(tb, dataplane.IPv4, "rr")), named: map[string]bool{"": true}}}
	l.now = time.Unix(1_800_000_000, 0)
	return l
}

// busy gives each virtual server that is named so many connections.
func (l *leaver) busy(n uint32, which func(virtualServer) bool) {
	for _, v := range l.servers {
		if which(*v) {
			v.real = slices.Clone(v.real)
			v.real[0].open = n
		}
	}
}

// leave takes the steps of a pass, each of which must leave something sound.
func (l *leaver) leave(limit time.Duration) string {
	l.Helper()
	var told []string
	for s := range leave(leaving(l.observed, limit), l.observed).all() {
		if err := l.take(s); err != nil {
			l.Fatalf("%s: %v", s.change(), err)
		}
		told = append(told, s.change().String())
	}
	return strings.Join(told, "\n")
}

// empty requires that nothing is held.
func (l *leaver) empty() {
	l.Helper()
	left := len(l.servers) + len(l.routes) + len(l.inbound) + len(l.policies)
	for _, s := range l.sets {
		if s != nil {
			left++
		}
	}
	if left > 0 {
		l.Errorf("%d things are left: %v %v %v %v", left, l.servers, l.routes, l.inbound, l.policies)
	}
}

// What has connections stays with all that leads to it, whatever it is; the rest goes
// at once, and that goes when the connections have ended or the limit is over.
func TestLeave(t *testing.T) {
	at := func(a string) func(virtualServer) bool {
		return func(v virtualServer) bool { return v.Addr == netip.MustParseAddr(a) && v.mark == 0 }
	}
	marked := func(v virtualServer) bool { return v.mark != 0 }
	none := func(virtualServer) bool { return false }
	for name, c := range map[string]struct {
		which func(virtualServer) bool
		// routes, inbound, policies and doors are how many of each stay.
		routes, inbound, policies, doors int
	}{
		"nothing":             {none, 0, 0, 0, 0},
		"a ClusterIP":         {at("10.96.0.1"), 1, 0, 0, 0},
		"an external address": {at("203.0.113.7"), 0, 1, 1, 0},
		"chosen by a mark":    {marked, 1, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaver(t)
			l.busy(2, c.which)
			l.leave(time.Minute)
			if doors := len(l.entries(markOutside)); len(l.routes) != c.routes || len(l.inbound) != c.inbound || len(l.policies) != c.policies || doors != c.doors {
				t.Errorf("stay: routes %v, ways in %v by %v, doors %v", l.routes, l.inbound, l.policies, l.entries(markOutside))
			}
			for _, p := range l.policies {
				if want := "priority 84 to 203.0.113.7 ipproto tcp dport 80 lookup 8484"; p.line() != want {
					t.Errorf("policy %q, want %q", p.line(), want)
				}
			}
			for _, v := range l.servers {
				if r := v.real[0]; !c.which(*v) || len(v.real) != 1 || r.weight != 0 || int64(r.began) != l.now.Unix() {
					t.Errorf("stays: %s with %+v", v.object(), v.real)
				}
			}
			l.now = l.now.Add(59 * time.Second)
			if got := l.leave(time.Minute); got != "" {
				t.Errorf("while it drains:\n%s", got)
			}
			if c.doors == 0 { // with either end
				l.busy(0, c.which)
			}
			l.now = l.now.Add(time.Second)
			l.leave(time.Minute)
			l.empty()
		})
	}
}

// Who does not wait takes away everything at once.
func TestLeaveAtOnce(t *testing.T) {
	l := newLeaver(t)
	l.busy(2, func(virtualServer) bool { return true })
	l.leave(-1)
	l.empty()
}
