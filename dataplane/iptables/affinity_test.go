package iptables

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// sticky is a table with one Service of two endpoints, in both families, that
// remembers clients.
func sticky(timeout time.Duration) dataplane.Table {
	t := dataplane.Table{Node: tables.Node()}
	tables.ClusterIP(&t, "default/web", "10.96.0.10:80", dataplane.TCP, "10.244.0.11:8080", "10.244.0.12:8080")
	tables.ClusterIP(&t, "default/web", "[fd00:10:96::10]:80", dataplane.TCP, "[fd00:10:244::11]:8080", "[fd00:10:244::12]:8080")
	for i := range t.Sets {
		t.Sets[i].Affinity = timeout
	}
	return t
}

// TestAffinityRules shows the rules of a set with affinity: first back to the
// endpoint that served the client, then by chance, remembering; in both kinds of
// memory.
func TestAffinityRules(t *testing.T) {
	s := setOf(1, 1)
	s.Affinity = 90 * time.Minute
	for _, tc := range []struct {
		memory clientMemory
		want   string
	}{
		{inSets, `
TO1 -j SET --add-set CLI1 src --exist --timeout 5400
TO1 -p tcp -j DNAT --to-destination 10.244.0.1:80
TO2 -j SET --add-set CLI2 src --exist --timeout 5400
TO2 -p tcp -j DNAT --to-destination 10.244.0.2:80
EPS -m set --match-set CLI1 src -g TO1
EPS -m set --match-set CLI2 src -g TO2
EPS -m statistic --mode random --probability 0.50000000000 -g TO1
EPS -g TO2
`},
		{inLists, `
EPS -p tcp -m recent --update --seconds 5400 --reap --name LIST1 --mask 255.255.255.255 --rsource -j DNAT --to-destination 10.244.0.1:80
EPS -p tcp -m recent --update --seconds 5400 --reap --name LIST2 --mask 255.255.255.255 --rsource -j DNAT --to-destination 10.244.0.2:80
EPS -p tcp -m statistic --mode random --probability 0.50000000000 -m recent --set --name LIST1 --mask 255.255.255.255 --rsource -j DNAT --to-destination 10.244.0.1:80
EPS -p tcp -m recent --set --name LIST2 --mask 255.255.255.255 --rsource -j DNAT --to-destination 10.244.0.2:80
`},
	} {
		p := picker{set: s}
		one, two := s.Endpoints[0], s.Endpoints[1]
		words := strings.NewReplacer(clientSet(s, one), "CLI1", clientSet(s, two), "CLI2", recentList(s, one), "LIST1", recentList(s, two), "LIST2",
			setChain(s.Name, ""), "EPS", p.toChain(one), "TO1", p.toChain(two), "TO2")
		got := "\n"
		for _, c := range pickChains(s, tc.memory) {
			for _, r := range c.Rules {
				got += words.Replace(c.Name+" "+r) + "\n"
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("memory %d: %s", tc.memory, diff)
		}
	}
}

// TestClientSets proves that two sets of one Service share the memory of an
// endpoint, that what is not the same Service, protocol or endpoint does not, and
// that names of sets are known for ours.
func TestClientSets(t *testing.T) {
	s := setOf(1)
	s.Affinity = 1500 * time.Millisecond
	local, other, udp, plain := s, s, s, s
	local.Name, other.Service, udp.Protocol, plain.Affinity = "s/local", "default/other", dataplane.UDP, 0
	all := clientSets([]dataplane.EndpointSet{s, local, other, udp, plain})
	if len(all) != 3 || all[0].Timeout != 2*time.Second {
		t.Errorf("%d sets, want 3 with a timeout of 2 s: %v", len(all), all)
	}
	for _, c := range all {
		if !ownedSet(c.Name) || len(c.Name+"-NEXT") > 31 {
			t.Errorf("set %s is not ours, or too long", c.Name)
		}
	}
	if ownedSet("TOY-CLI-MINE") || ownedSet("TOY-VS-4") {
		t.Error("sets of others are taken for ours")
	}
}

// TestThousandsOfClients proves that far more clients of an endpoint than 100
// stay where they are (row C15).
func TestThousandsOfClients(t *testing.T) {
	const clients = 3000
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := programmed(t, e, func(l *lab.Lab, table *dataplane.Table) {
			tables.Service(t, table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pod(2), l.Pod(3))
			for i := range table.Sets {
				table.Sets[i].Affinity = time.Hour
			}
		})
		// As many addresses as ranges that are local, in one step each.
		l.Outside.Run("ip", "route", "add", "local", "198.18.0.0/16", "dev", "lo")
		l.Outside.Run("ip", "-6", "route", "add", "local", "2001:db8::/64", "dev", "lo")
		l.Outside.Sysctl("net.ipv6.ip_nonlocal_bind", "1")
		for _, at := range tables.Both(t, "10.96.0.10:80") {
			served := map[netip.Addr]string{}
			for n := range clients {
				from := netip.AddrFrom4([4]byte{198, 18, byte(n / 250), byte(1 + n%250)})
				if at.Addr().Is6() {
					from = netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", n+1))
				}
				served[from] = answers(t, l.Outside, at, from)
			}
			moved := 0
			for from, before := range served {
				if answers(t, l.Outside, at, from) != before {
					moved++
				}
			}
			if moved > 0 {
				t.Errorf("%s: %d of %d clients moved", at, moved, clients)
			}
		}
	})
}

// answers returns who serves a client.
func answers(t *testing.T, h *lab.Host, at netip.AddrPort, from netip.Addr) string {
	t.Helper()
	out := lab.Probe(h, dataplane.TCP, at, lab.Options{From: from})
	if out.Fate != lab.OK {
		t.Fatalf("client %s of %s: %s", from, at, out)
	}
	return out.Endpoint
}

// TestSetsComeAndGo proves that sets are made with the Services that need them
// and removed with them, that those of others stay, and that a set left by a
// pass that was killed goes.
func TestSetsComeAndGo(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		b := New(Config{Engine: e})
		foreign := []string{"MINE", "TOY-MINE", "TOY-VS-4"}
		for _, name := range foreign {
			l.Node.Run("ipset", "create", name, "hash:ip", "timeout", "5")
		}
		l.Node.Run("ipset", "create", "TOY-CLI-AAAAAAAAAAAAAAAA-NEXT", "hash:ip", "timeout", "5")
		count := func() int { return len(strings.Fields(l.Node.Run("ipset", "list", "-n"))) - len(foreign) }
		l.Node.Do(func() { converge(t, b, sticky(time.Hour)) })
		if got := count(); got != 4 {
			t.Errorf("%d sets, want one for each endpoint\n%s", got, l.Node.Run("ipset", "list", "-t"))
		}
		fewer := sticky(time.Hour)
		fewer.Sets[0].Endpoints = fewer.Sets[0].Endpoints[1:]
		l.Node.Do(func() { converge(t, b, fewer) })
		if got := count(); got != 3 {
			t.Errorf("%d sets, want 3 after an endpoint has left", got)
		}
		l.Node.Do(func() { converge(t, New(Config{Engine: e.Other()}), sticky(time.Hour)) })
		l.Node.Do(func() { converge(t, New(Config{Engine: e}), tables.Small()) })
		if got := count(); got != 0 {
			t.Errorf("%d sets, want none without affinity\n%s", got, l.Node.Run("ipset", "list", "-t"))
		}
		l.Node.Do(func() {
			converge(t, b, sticky(time.Hour))
			p, err := b.Remove(t.Context())
			if err == nil {
				err = p.Apply(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
		if got := count(); got != 0 {
			t.Errorf("%d sets, want none after removal", got)
		}
	})
}

// TestTimeoutChanges proves that a set which gets another timeout keeps its
// clients, each as long after it was last seen as the new timeout says.
func TestTimeoutChanges(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		b := New(Config{Engine: e, Families: []dataplane.Family{dataplane.IPv4}})
		l.Node.Do(func() { converge(t, b, sticky(time.Hour)) })
		set := clientSet(sticky(time.Hour).Sets[0], sticky(time.Hour).Sets[0].Endpoints[0])
		for addr, left := range map[string]string{"192.0.2.1": "3500", "192.0.2.2": "1900"} {
			l.Node.Run("ipset", "add", set, addr, "timeout", left)
		}
		l.Node.Do(func() { converge(t, b, sticky(10*time.Minute)) })
		got := l.Node.Run("ipset", "save", set)
		if !strings.Contains(got, "timeout 600") || strings.Contains(got, "192.0.2.2") || !strings.Contains(got, "add "+set+" 192.0.2.1 timeout 49") {
			t.Errorf("seen 100 s ago and 1700 s ago, with a timeout of 600 s now:\n%s", got)
		}
		l.Node.Do(func() { converge(t, b, sticky(2*time.Hour)) })
		if got := l.Node.Run("ipset", "save", set); !strings.Contains(got, "add "+set+" 192.0.2.1 timeout 70") {
			t.Errorf("seen 100 s ago, with a timeout of 7200 s now:\n%s", got)
		}
	})
}

// TestWithoutSets proves that a kernel without ipset still has affinity, by the
// match "recent", and that the plan says what that means.
func TestWithoutSets(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		b := New(Config{Engine: e})
		b.try = func(context.Context, xtables.Tool) error {
			return &dataplane.Unsupported{Feature: "ipset", Missing: "module ip_set", Mend: "load it"}
		}
		l.Node.Do(func() { converge(t, b, sticky(time.Hour)) })
		if rules := l.Node.Run("iptables-"+e.String()+"-save", "-t", "nat"); !strings.Contains(rules, "-m recent --set") || strings.Contains(rules, "--match-set") {
			t.Errorf("rules\n%s", rules)
		}
		l.Node.Do(func() {
			if got := dataplane.Remarks(plan(t, b, sticky(time.Hour))); len(got) != 1 || !strings.Contains(got[0], "about 100 clients") {
				t.Errorf("remarks %q", got)
			}
		})
		l.Node.Do(func() { converge(t, New(Config{Engine: e}), sticky(time.Hour)) })
	})
}

// TestForeignRuleKeepsSet proves that a set which a rule of somebody else names
// is reported, not silently left.
func TestForeignRuleKeepsSet(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		b := New(Config{Engine: e, Families: []dataplane.Family{dataplane.IPv4}})
		l.Node.Do(func() { converge(t, b, sticky(time.Hour)) })
		set := clientSet(sticky(time.Hour).Sets[0], sticky(time.Hour).Sets[0].Endpoints[0])
		l.Node.Run("iptables-"+e.String(), "-A", "INPUT", "-m", "set", "--match-set", set, "src", "-j", "DROP")
		l.Node.Do(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := plan(t, b, tables.Small()).Apply(ctx)
			if err == nil || !strings.Contains(err.Error(), set) || !strings.Contains(err.Error(), "a rule that is not ours names the set") {
				t.Errorf("error %v", err)
			}
		})
	})
}
