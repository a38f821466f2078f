package iptables

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/tables"
)

// manyDoors is a table of n Services, each with a NodePort and an external
// address that only some sources may use.
func manyDoors(n int) dataplane.Table {
	t := tables.Many(n, 2)
	addr := netip.MustParseAddr("203.0.113.1")
	for i := range n {
		fe := t.Frontends[i]
		fe.Addr, fe.Port, fe.Kind = netip.IPv4Unspecified(), uint16(30000+i), dataplane.NodePort
		t.Frontends = append(t.Frontends, fe)
		fe.Addr, fe.Port, fe.Kind = addr, 80, dataplane.ExternalIP
		fe.Allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")}
		t.Frontends = append(t.Frontends, fe)
		addr = addr.Next()
	}
	t.Sort()
	return t
}

// TestDoorRules shows all rules that the doors of one Service other than its
// ClusterIP add.
func TestDoorRules(t *testing.T) {
	rules := func(table dataplane.Table) (out []string) {
		for _, c := range Ruleset(table, dataplane.IPv4, true).Chains {
			for _, r := range c.Rules {
				out = append(out, string(c.Table)+" "+c.Name+" "+r)
			}
		}
		return out
	}
	had := map[string]bool{}
	for _, r := range rules(tables.Many(1, 2)) {
		had[r] = true
	}
	var got []string
	for _, r := range rules(manyDoors(1)) {
		if !had[r] {
			got = append(got, r)
		}
	}
	ref := manyDoors(1)
	names := strings.NewReplacer(frontendChain(ref.Frontends[0].Key), "NP", frontendChain(ref.Frontends[2].Key), "XIP",
		allowedChain(ref.Frontends[2].Key), "XIP-ALLOWED", frontendChain(ref.Frontends[1].Key), "CIP", setChain(ref.Sets[0].Name, ""), "SET")
	want := []string{
		"filter TOY-INVALID -d 192.0.2.1/32 -p tcp -m tcp --dport 30000 -j DROP",
		"filter TOY-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -m connmark --mark 0x4000/0x4000 -j ACCEPT",
		// The set has a chain of its own, now that several frontends lead to it.
		"nat SET -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.200.0.1:8080",
		"nat SET -p tcp -j DNAT --to-destination 10.201.0.1:8080",
		`nat NP -m comment --comment "default/s0:http" -j CONNMARK --set-xmark 0x4000/0x4000`,
		"nat NP ! -s 10.244.0.0/16 -j TOY-MARK-MASQ",
		"nat NP -g SET",
		`nat CIP -m comment --comment "default/s0:http" -g SET`,
		"nat XIP-ALLOWED -j CONNMARK --set-xmark 0x4000/0x4000",
		"nat XIP-ALLOWED ! -s 10.244.0.0/16 -j TOY-MARK-MASQ",
		"nat XIP-ALLOWED -g SET",
		`nat XIP -s 192.0.2.0/24 -m comment --comment "default/s0:http" -g XIP-ALLOWED`,
		"nat XIP -s 198.51.100.0/24 -g XIP-ALLOWED",
		"nat XIP -j TOY-DROP",
		"nat TOY-NODEPORTS -p tcp -m tcp --dport 30000 -g NP",
		"nat TOY-SERVICES -d 203.0.113.1/32 -p tcp -m tcp --dport 80 -j XIP",
		"nat TOY-SERVICES -d 192.0.2.1/32 -j TOY-NODEPORTS",
	}
	if diff := cmp.Diff(want, strings.Split(names.Replace(strings.Join(got, "\n")), "\n")); diff != "" {
		t.Error(diff)
	}
}

// TestFilterStaysSmall proves that table filter is the same for one Service with
// every door as for a thousand, but for the highest NodePort.
func TestFilterStaysSmall(t *testing.T) {
	filter := func(n int, ports string) (out []xtables.Chain) {
		for _, c := range Ruleset(manyDoors(n), dataplane.IPv4, true).Chains {
			if c.Table == xtables.Filter {
				for i, r := range c.Rules {
					c.Rules[i] = strings.Replace(r, "--dport "+ports+" ", "--dport PORTS ", 1)
				}
				out = append(out, c)
			}
		}
		return out
	}
	if diff := cmp.Diff(filter(1, "30000"), filter(1000, "30000:30999")); diff != "" {
		t.Error(diff)
	}
}

// TestOneDoorChange proves that a door that comes, goes or lets other sources in
// changes its own chains and those on the way to it, among a thousand of each.
func TestOneDoorChange(t *testing.T) {
	have := stateOf(t, Ruleset(manyDoors(1000), dataplane.IPv4, true))
	nodePort := dataplane.Key{Addr: netip.IPv4Unspecified(), Protocol: dataplane.TCP, Port: 30777}
	external := dataplane.Key{Addr: netip.MustParseAddr("203.0.115.9"), Protocol: dataplane.TCP, Port: 80}
	edit := func(k dataplane.Key, change func(*dataplane.Frontend)) dataplane.Table {
		table := manyDoors(1000)
		for i := range table.Frontends {
			if table.Frontends[i].Key == k {
				change(&table.Frontends[i])
			}
		}
		table.Sort()
		return table
	}
	for _, tc := range []struct {
		name  string
		table dataplane.Table
		edits int // its own chains, and those of the dispatch on the way to it
	}{
		{"nothing", manyDoors(1000), 0},
		{"NodePort refuses", edit(nodePort, func(fe *dataplane.Frontend) {
			fe.Routes[dataplane.FromOutside] = dataplane.Route{Verdict: dataplane.Refuse}
		}), 1},
		{"NodePort moves", edit(nodePort, func(fe *dataplane.Frontend) { fe.Port = 32000 }), 6},
		{"other sources", edit(external, func(fe *dataplane.Frontend) { fe.Allowed = fe.Allowed[1:] }), 1},
		{"every source", edit(external, func(fe *dataplane.Frontend) { fe.Allowed = nil }), 2},
		{"other port", edit(external, func(fe *dataplane.Frontend) { fe.Port = 81 }), 5},
	} {
		edits := xtables.Diff(Ruleset(tc.table, dataplane.IPv4, true), have).Edits
		if len(edits) != tc.edits {
			t.Errorf("%s: %d chains change, want %d", tc.name, len(edits), tc.edits)
			for _, e := range edits {
				t.Logf("%c chain %s for %q: %s", e.Op, e.Chain, e.For, e.Reason)
			}
		}
	}
}

// TestNodePortsMet proves that among a thousand NodePorts on one address no
// packet meets more rules than the tree allows, nor one to any other port.
func TestNodePortsMet(t *testing.T) {
	table := manyDoors(1000)
	p := tables.Packet{Src: netip.MustParseAddr("198.51.100.9"), Dst: table.Node.Addrs[0], Protocol: dataplane.TCP, Port: 22, In: "eth0"}
	rules := Ruleset(table, dataplane.IPv4, true).Rules()
	if got := tables.FatesOf(follow(rules, p.On(table.Node))); got["none"] != 1 {
		t.Errorf("port 22 of the node: %v", got)
	}
	most := metIn(rules, p.On(table.Node))
	for i := range 1000 {
		p.Port = uint16(30000 + i)
		most = max(most, metIn(rules, p.On(table.Node)))
	}
	if most > 64 {
		t.Errorf("a packet meets %d rules", most)
	}
	t.Logf("%d rules at most", most)
}
