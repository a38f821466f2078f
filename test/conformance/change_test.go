package conformance

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
)

// TestTransitions visits the states of all scenarios in random order in one
// kernel: from any state to any other, the result equals one programmed from
// nothing.
func TestTransitions(t *testing.T) {
	const visits = 15
	onBackends(t, 0, func(t *testing.T, s *stage, b backend) {
		tables := allTables(t, b)
		const seed = 20261130
		r := rand.New(rand.NewPCG(seed, seed))
		before := dumpOf(s.Node, everythingOf())
		last := "nothing"
		for range visits {
			at := tables[r.IntN(len(tables))]
			if err := program(s.Node, s.backend, at.table); err != nil {
				t.Fatalf("from %s to %s: %v", last, at.name, err)
			}
			if diff := unlikeNew(t, s.backend, at.table, s.Node); diff != "" {
				t.Errorf("from %s to %s the kernel differs from one programmed from nothing:\n%s", last, at.name, diff)
			}
			last = at.name
		}
		if err := clear(s.Node, s.backend); err != nil {
			t.Error(err)
		}
		if left := differences(before, dumpOf(s.Node, everythingOf())); left != "" {
			t.Errorf("after remove the kernel is not as before:\n%s", left)
		}
	})
}

type namedTable struct {
	name  string
	table dataplane.Table
}

// allTables returns the table of every step of every scenario that a backend
// serves.
func allTables(t *testing.T, b backend) []namedTable {
	t.Helper()
	scenarios, err := loadScenarios("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var out []namedTable
	for _, s := range scenarios {
		p := newPipeline()
		for _, st := range s.steps {
			table, err := p.step(s, st)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, namedTable{s.name + " " + st.name, table})
		}
	}
	return out
}

// TestEstablished proves that an open connection outlives changes around it and
// passes that change nothing, and its own endpoint's leaving of the Service,
// while new ones go elsewhere at once (row C11,
// fault 61).
func TestEstablished(t *testing.T) {
	onBackends(t, 3, func(t *testing.T, s *stage, _ backend) {
		s.Pod(2).Serve(dataplane.TCP, 8080)
		s.Pod(3).Serve(dataplane.TCP, 8080)
		for _, vip := range vips(10, true) {
			at := netip.AddrPortFrom(vip, 80)
			s.program("p2 app=web", web)
			open := lab.Open(s.Pod(1), at)
			s.program("p2 app=web", web)
			s.program("p2 app=web\np3 app=web", web)
			if err := open.Echo(); err != nil || open.Outcome.Name() != "p2:8080" {
				t.Errorf("connection to %s by %s, one endpoint more: %v", vip, open.Outcome, err)
			}
			s.program("p3 app=web", web)
			for range 10 {
				if o := lab.Probe(s.Pod(1), dataplane.TCP, at, lab.Options{}); o.Name() != "p3:8080" {
					t.Errorf("new connection to %s: %s, want p3", vip, o)
				}
			}
			if err := open.Echo(); err != nil {
				t.Errorf("connection to %s, its endpoint gone: %v, want it alive", vip, err)
			}
		}
	})
}

// TestAffinityTimeout proves that many clients keep their endpoints as long as
// the timeout (row C15), and that the memory ends.
func TestAffinityTimeout(t *testing.T) {
	const timeout = 4
	objects := strings.Replace(web, "selector: {app: web},", fmt.Sprintf(
		"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: %d}}, selector: {app: web},", timeout), 1)
	onBackends(t, 3, func(t *testing.T, s *stage, b backend) {
		var from []netip.Addr
		for n := range b.clients {
			a := netip.AddrFrom4([4]byte{198, 18, byte(n / 250), byte(1 + n%250)})
			s.Outside.AddAddr("lan0", netip.PrefixFrom(a, 32))
			from = append(from, a)
		}
		s.Pod(2).Serve(dataplane.TCP, 8080)
		s.Pod(3).Serve(dataplane.TCP, 8080)
		s.program(podLines(2, 3, "app=web"), objects)
		first := s.whoServes(from)
		if n := moved(first, s.whoServes(from)); n > 0 {
			t.Errorf("%d of %d clients moved within the timeout", n, b.clients)
		}
		if b.persists {
			if servers := s.Node.Run("ipvsadm", "-Sn"); !strings.Contains(servers, fmt.Sprintf("-p %d", timeout)) {
				t.Errorf("no persistence of %d s in\n%s", timeout, servers)
			}
			return
		}
		time.Sleep((timeout + 1) * time.Second) // nothing to poll: each look refreshes the memory
		if moved(first, s.whoServes(from)) == 0 {
			t.Errorf("of %d clients none moved after the timeout", b.clients)
		}
	})
}

// moved counts the clients that another endpoint serves than before.
func moved(first, again []string) int {
	n := 0
	for i := range first {
		if first[i] != again[i] {
			n++
		}
	}
	return n
}

// whoServes returns the endpoint of each client address.
func (s *stage) whoServes(clients []netip.Addr) []string {
	var out []string
	for _, c := range clients {
		o := lab.Probe(s.Outside, dataplane.TCP, netip.AddrPortFrom(vips(10, false)[0], 80), lab.Options{From: c})
		if o.Fate != lab.OK {
			s.t.Fatalf("client %s: %s", c, o)
		}
		out = append(out, o.Name())
	}
	return out
}

// TestOtherEngine proves that rules of ours in the other engine go when the
// engine changes, traffic follows the new ones only, and rules of others stay
// (faults 18 and 49).
func TestOtherEngine(t *testing.T) {
	lab.Require(t, lab.IptablesNFT, lab.IptablesLegacy)
	for _, e := range []xtables.Engine{xtables.NFT, xtables.Legacy} {
		t.Run(e.String(), func(t *testing.T) {
			s := &stage{lab.New(t), t, iptables.New(iptables.Config{Engine: e.Other()}), newPipeline()}
			s.Pod(1).Serve(dataplane.TCP, 8080)
			s.Pod(2).Serve(dataplane.TCP, 8080)
			foreign := []string{"iptables-" + e.Other().String(), "-t", "nat", "-A", "PREROUTING", "-d", "198.51.100.9/32", "-j", "ACCEPT"}
			s.Node.Run(foreign...)
			before := dumpOf(s.Node, rulesOf())
			s.program("p1 app=web", web)
			s.backend = iptables.New(iptables.Config{Engine: e})
			s.program("p2 app=web", web)
			for _, vip := range vips(10, true) {
				got := lab.ProbeMany(s.Pod(3), dataplane.TCP, netip.AddrPortFrom(vip, 80), 20)
				if got.Endpoints["p2:8080"] != 20 {
					t.Errorf("%s: %v, first failure %v; want p2 alone", vip, got.Endpoints, got.Failure)
				}
			}
			tool := "iptables-" + e.Other().String() + "-save"
			if after := dumpOf(s.Node, rulesOf()); !slices.Equal(before[tool], after[tool]) {
				t.Errorf("%s before: %q, after: %q", tool, before[tool], after[tool])
			}
			if err := clear(s.Node, s.backend); err != nil {
				t.Error(err)
			}
			if left := differences(before, dumpOf(s.Node, rulesOf())); left != "" {
				t.Errorf("after remove the kernel is not as before:\n%s", left)
			}
		})
	}
}
