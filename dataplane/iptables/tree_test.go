package iptables

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/tables"
)

// lookup follows the tree as the rules made from it do, and returns the keys it
// ends at and the entries it met.
func lookup(t tree, key string) (leaf []string, met int) {
	for i, kid := range t.kids {
		if len(kid.prefix) <= len(key) && key[:len(kid.prefix)] == kid.prefix {
			leaf, met := lookup(kid, key)
			return leaf, met + i + 1
		}
	}
	if t.kids != nil {
		return nil, len(t.kids)
	}
	return t.keys, len(t.keys)
}

// anyKeys generates sorted, distinct keys of equal length.
func anyKeys(t *rapid.T) []string {
	n := rapid.IntRange(1, 8).Draw(t, "length")
	digit := rapid.Custom(func(t *rapid.T) byte { return rapid.SampledFrom([]byte{0, 0, 1, 2, 7, 14, 15}).Draw(t, "digit") })
	keys := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(digit, n, n).Draw(t, "key"))
	}), 1, 300).Draw(t, "keys")
	slices.Sort(keys)
	return slices.Compact(keys)
}

// TestTree proves that every key is found in a list that holds it, that no list
// is longer than a bucket, and that keys which are not there find no list that
// has them.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := anyKeys(t)
		root := grow(keys, one)
		for _, k := range keys {
			leaf, met := lookup(root, k)
			if !slices.Contains(leaf, k) || len(leaf) > bucket || met > 16*len(k)+bucket {
				t.Fatalf("key %v: list %v after %d entries", []byte(k), leaf, met)
			}
		}
	})
}

// TestTreeIsLocal proves that one more key changes no part that was there before
// but those on the way to it.
func TestTreeIsLocal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := anyKeys(t)
		if len(keys) < 2 {
			return
		}
		out := rapid.IntRange(0, len(keys)-1).Draw(t, "removed")
		added := keys[out]
		before, after := parts(grow(slices.Delete(slices.Clone(keys), out, out+1), one)), parts(grow(keys, one))
		for prefix, list := range after {
			old, existed := before[prefix]
			if existed && !slices.Equal(old, list) && added[:min(len(prefix), len(added))] != prefix {
				t.Fatalf("key %v changed the part %v", []byte(added), []byte(prefix))
			}
		}
	})
}

// parts lists for each part of a tree below the root what leads on from it.
func parts(t tree) map[string][]string {
	out := map[string][]string{}
	for _, kid := range t.kids {
		for k, v := range parts(kid) {
			out[k] = v
		}
		out[kid.prefix] = kid.keys
		if kid.kids != nil {
			out[kid.prefix] = nil
			for _, k := range kid.kids {
				out[kid.prefix] = append(out[kid.prefix], k.prefix)
			}
		}
	}
	return out
}

// TestDigits proves that addresses and ports survive being cut into digits.
func TestDigits(t *testing.T) {
	for _, text := range []string{"10.96.0.0/24", "10.96.0.10/32", "0.0.0.0/0", "fd00:10:96::/112", "::/4", "fd00::1/128"} {
		p := netip.MustParsePrefix(text)
		if got := prefixOf(dataplane.FamilyOf(p.Addr()), digits(p.Addr())[:p.Bits()/4]); got != p {
			t.Errorf("%s came back as %s", p, got)
		}
	}
	for _, tc := range []struct {
		digits    string
		low, high uint16
	}{
		{portKey(dataplane.UDP, 53), 53, 53}, {portKey(dataplane.UDP, 0x1234)[:3], 0x1200, 0x12ff},
		{portKey(dataplane.UDP, 65535)[:1], 0, 65535}, {portKey(dataplane.UDP, 65535)[:4], 65520, 65535},
	} {
		p, low, high := portRange(tc.digits)
		if p != dataplane.UDP || low != tc.low || high != tc.high {
			t.Errorf("%v: %s %d to %d, want %d to %d", []byte(tc.digits), p, low, high, tc.low, tc.high)
		}
	}
}

// TestRulesMetByAny proves that among 10,000 Services no packet to any of them
// meets more than 64 rules up to its endpoint.
func TestRulesMetByAny(t *testing.T) {
	table := tables.Many(10_000, 10)
	rules := Ruleset(table, dataplane.IPv4, true).Rules()
	most, sum := 0, 0
	for _, fe := range table.Frontends {
		met := metIn(rules, tables.Packet{Src: tables.Node().Addrs[0]}.To(fe.Key).On(table.Node))
		most, sum = max(most, met), sum+met
	}
	if most > 64 {
		t.Errorf("a packet meets %d rules", most)
	}
	t.Logf("%d rules at most, %d on average", most, sum/len(table.Frontends))
}

// TestOneChange proves that a changed endpoint changes only the chain of its
// Service, and when it lives on this node those on the way to its address in the
// tree of such endpoints; and an added Service only its own chains and those of
// the dispatch on its way.
func TestOneChange(t *testing.T) {
	have := stateOf(t, Ruleset(tables.Many(2000, 10), dataplane.IPv4, true))
	for _, tc := range []struct {
		name    string
		change  func(*dataplane.Table)
		allowed func(xtables.Edit) bool
		edits   int
	}{
		{"endpoint elsewhere", func(t *dataplane.Table) { endpointOf(t, "s777").Addr = netip.MustParseAddrPort("10.244.9.9:8080") },
			func(e xtables.Edit) bool { return e.For == "default/s777:http" }, 1},
		{"endpoint here", func(t *dataplane.Table) {
			*endpointOf(t, "s777") = dataplane.Endpoint{Addr: netip.MustParseAddrPort("10.244.9.9:8080"), Weight: 1, Local: true}
		}, func(e xtables.Edit) bool { return e.For == "default/s777:http" || e.Chain == hairpinChain }, 2},
		{"Service added", func(t *dataplane.Table) {
			tables.Fill(t, 5000, netip.MustParseAddrPort("10.96.3.7:8443"), "10.244.1.1:80")
		},
			func(e xtables.Edit) bool {
				p, err := netip.ParsePrefix(e.Chain[len(xtables.Prefix):])
				onWay := err == nil && p.Contains(netip.MustParseAddr("10.96.3.7"))
				return onWay || e.For == "default/s5000:http" || e.Chain == "TOY-10.96.3.7" || e.Chain == hairpinChain
			}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := tables.Many(2000, 10)
			tc.change(&table)
			table.Sort()
			edits := xtables.Diff(Ruleset(table, dataplane.IPv4, true), have).Edits
			for _, e := range edits {
				if !tc.allowed(e) {
					t.Errorf("%c chain %s for %q: %s", e.Op, e.Chain, e.For, e.Reason)
				}
			}
			if len(edits) != tc.edits {
				t.Errorf("%d chains change, want %d", len(edits), tc.edits)
			}
		})
	}
}

// endpointOf returns the fourth endpoint of a Service made by many.
func endpointOf(t *dataplane.Table, name string) *dataplane.Endpoint {
	i := slices.IndexFunc(t.Sets, func(s dataplane.EndpointSet) bool { return s.Service == "default/"+name+":http" })
	return &t.Sets[i].Endpoints[3]
}

// stateOf is the kernel after a ruleset was loaded, without a kernel.
func stateOf(t testing.TB, r xtables.Ruleset) xtables.State {
	t.Helper()
	st, err := xtables.Parse([]byte(saved(r)))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// saved is what iptables-save prints for a ruleset.
func saved(r xtables.Ruleset) string {
	out := ""
	for _, table := range []xtables.Table{xtables.Filter, xtables.NAT} {
		var b []byte
		for _, base := range []string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"} {
			b = append(b, ":"+base+" ACCEPT [0:0]\n"...)
		}
		for _, c := range r.Chains {
			if c.Table == table {
				b = append(b, ":"+c.Name+" - [0:0]\n"...)
			}
		}
		for _, j := range r.Jumps {
			if j.Table == table {
				b = append(b, "-A "+j.Base+" "+j.Rule+"\n"...)
			}
		}
		for _, c := range r.Chains {
			for _, rule := range c.Rules {
				if c.Table == table {
					b = append(b, "-A "+c.Name+" "+rule+"\n"...)
				}
			}
		}
		out += "*" + string(table) + "\n" + string(b) + "COMMIT\n"
	}
	return out
}
