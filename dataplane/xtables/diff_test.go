package xtables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
)

// web is a small ruleset: two Services behind one dispatch chain.
func web() Ruleset {
	return Ruleset{
		Family: dataplane.IPv4,
		Chains: []Chain{
			{Table: Filter, Name: "TOY-FILTER", Rules: []string{"-j DROP"}},
			{Table: NAT, Name: "TOY-SVC-AAAAAAAAAAAAAAAA", For: "default/a", Rules: []string{"-j MARK --set-xmark 0x1/0x1", "-p tcp -j DNAT --to-destination 10.0.0.1:80"}},
			{Table: NAT, Name: "TOY-SVC-BBBBBBBBBBBBBBBB", For: "default/b", Rules: []string{"-p tcp -j DNAT --to-destination 10.0.0.2:80"}},
			{Table: NAT, Name: "TOY-SERVICES", Rules: []string{"-d 10.96.0.1/32 -g TOY-SVC-AAAAAAAAAAAAAAAA", "-d 10.96.0.2/32 -g TOY-SVC-BBBBBBBBBBBBBBBB"}},
		},
		Jumps: []Jump{
			{Table: Filter, Base: "FORWARD", Rule: `-m comment --comment "toyproxy: x" -j TOY-FILTER`},
			{Table: NAT, Base: "PREROUTING", Rule: `-m comment --comment "toyproxy: a -j b" -j TOY-SERVICES`},
			{Table: NAT, Base: "OUTPUT", Rule: `-m comment --comment "toyproxy: x" -j TOY-SERVICES`, Last: true},
		},
	}
}

// state is the parsed state of a fake kernel.
func state(t interface{ Fatal(...any) }, k *fakeKernel) State {
	st, err := Parse(k.Dump())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestText shows the whole input for iptables-restore that makes a ruleset.
func TestText(t *testing.T) {
	want := `*filter
:TOY-FILTER - [0:0]
-A TOY-FILTER -j DROP
-I FORWARD 1 -m comment --comment "toyproxy: x" -j TOY-FILTER
COMMIT
*nat
:TOY-SVC-AAAAAAAAAAAAAAAA - [0:0]
:TOY-SVC-BBBBBBBBBBBBBBBB - [0:0]
:TOY-SERVICES - [0:0]
-A TOY-SVC-AAAAAAAAAAAAAAAA -j MARK --set-xmark 0x1/0x1
-A TOY-SVC-AAAAAAAAAAAAAAAA -p tcp -j DNAT --to-destination 10.0.0.1:80
-A TOY-SVC-BBBBBBBBBBBBBBBB -p tcp -j DNAT --to-destination 10.0.0.2:80
-A TOY-SERVICES -d 10.96.0.1/32 -g TOY-SVC-AAAAAAAAAAAAAAAA
-A TOY-SERVICES -d 10.96.0.2/32 -g TOY-SVC-BBBBBBBBBBBBBBBB
-I PREROUTING 1 -m comment --comment "toyproxy: a -j b" -j TOY-SERVICES
-A OUTPUT -m comment --comment "toyproxy: x" -j TOY-SERVICES
COMMIT
`
	if diff := cmp.Diff(want, web().Text()); diff != "" {
		t.Error(diff)
	}
}

// TestMinimalText proves that only changed chains are named, and that what is
// removed goes in the same transaction, with nat before filter.
func TestMinimalText(t *testing.T) {
	k := newFake()
	if err := k.load(web().Text()); err != nil {
		t.Fatal(err)
	}
	next := web()
	next.Chains = slices.Delete(next.Chains, 2, 3)
	next.Chains[1].Rules = next.Chains[1].Rules[1:]
	next.Chains[2].Rules = next.Chains[2].Rules[:1]
	next.Jumps = next.Jumps[:2]
	want := `*nat
:TOY-SVC-AAAAAAAAAAAAAAAA - [0:0]
:TOY-SERVICES - [0:0]
:TOY-SVC-BBBBBBBBBBBBBBBB - [0:0]
-A TOY-SVC-AAAAAAAAAAAAAAAA -p tcp -j DNAT --to-destination 10.0.0.1:80
-A TOY-SERVICES -d 10.96.0.1/32 -g TOY-SVC-AAAAAAAAAAAAAAAA
-D OUTPUT -m comment --comment "toyproxy: x" -j TOY-SERVICES
-X TOY-SVC-BBBBBBBBBBBBBBBB
COMMIT
`
	if diff := cmp.Diff(want, Diff(next, state(t, k)).Text()); diff != "" {
		t.Error(diff)
	}
	all := Diff(Ruleset{Family: dataplane.IPv4}, state(t, k)).Text()
	if strings.Index(all, "*nat") > strings.Index(all, "*filter") {
		t.Errorf("a removal begins with filter:\n%s", all)
	}
}

// TestReasons proves that every difference is told as what it is.
func TestReasons(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage string // iptables-restore input
		want   string
	}{
		{"none", "", ""},
		{"rule missing", "*nat\n-D TOY-SVC-BBBBBBBBBBBBBBBB -p tcp -j DNAT --to-destination 10.0.0.2:80\nCOMMIT\n",
			"~ iptables-nft nat chain TOY-SVC-BBBBBBBBBBBBBBBB for default/b: rule missing: -p tcp -j DNAT --to-destination 10.0.0.2:80"},
		{"foreign rule", "*nat\n-A TOY-SVC-BBBBBBBBBBBBBBBB -j ACCEPT\nCOMMIT\n",
			"~ iptables-nft nat chain TOY-SVC-BBBBBBBBBBBBBBBB for default/b: rule that does not belong in our chain: -j ACCEPT"},
		{"duplicate rule", "*filter\n-A TOY-FILTER -j DROP\nCOMMIT\n",
			"~ iptables-nft filter chain TOY-FILTER: rule that does not belong in our chain: -j DROP"},
		{"order", "*nat\n-D TOY-SVC-AAAAAAAAAAAAAAAA -j MARK --set-xmark 0x1/0x1\n-A TOY-SVC-AAAAAAAAAAAAAAAA -j MARK --set-xmark 0x1/0x1\nCOMMIT\n",
			"~ iptables-nft nat chain TOY-SVC-AAAAAAAAAAAAAAAA for default/a: rules in another order"},
		{"jump missing", "*filter\n-D FORWARD " + JumpComment("x") + " -j TOY-FILTER\nCOMMIT\n",
			"+ iptables-nft filter jumps in FORWARD: jump to TOY-FILTER missing in FORWARD"},
		{"jump twice", "*filter\n-A FORWARD " + JumpComment("x") + " -j TOY-FILTER\nCOMMIT\n",
			"- iptables-nft filter jumps in FORWARD: duplicate jump to TOY-FILTER in FORWARD"},
		{"chain to nowhere", "*nat\n:TOY-EPS-OLDOLDOLDOLDOLDO - [0:0]\nCOMMIT\n",
			"- iptables-nft nat chain TOY-EPS-OLDOLDOLDOLDOLDO: chain not wanted"},
		{"foreign chain", "*nat\n:TOY-MINE - [0:0]\n-A TOY-MINE -j ACCEPT\n-A OUTPUT -p udp -j TOY-MINE\nCOMMIT\n", ""},
		{"foreign rule that leads to our chain", "*nat\n-A OUTPUT -p udp -j TOY-SERVICES\nCOMMIT\n", ""},
		{"foreign rule in a built-in chain", "*filter\n-I FORWARD 1 -j ACCEPT\nCOMMIT\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newFake()
			for _, text := range []string{web().Text(), tc.damage} {
				if err := k.load(text); err != nil {
					t.Fatal(err)
				}
			}
			d := Diff(web(), state(t, k))
			var got []string
			for _, c := range d.Changes(NFT) {
				got = append(got, c.String())
			}
			if strings.Join(got, "\n") != tc.want {
				t.Errorf("changes %q, want %q", got, tc.want)
			}
			if err := apply(context.Background(), k, web(), d, 0); err != nil {
				t.Fatal(err)
			}
			if left := Diff(web(), state(t, k)); !left.Empty() {
				t.Errorf("left after apply: %v", left.Changes(NFT))
			}
		})
	}
}

// anyRuleset generates small rulesets whose chains lead to each other.
func anyRuleset(t *rapid.T) Ruleset {
	r := Ruleset{Family: dataplane.IPv4}
	n := rapid.IntRange(0, 6).Draw(t, "chains")
	for i := range n {
		c := Chain{Table: NAT, Name: fmt.Sprintf("TOY-10.0.0.%d", rapid.IntRange(i*2, i*2+1).Draw(t, "name"))}
		for range rapid.IntRange(0, 3).Draw(t, "rules") {
			rule := rapid.SampledFrom([]string{"-j ACCEPT", "-p tcp -j DROP", "-j MARK --set-xmark 0x1/0x1"}).Draw(t, "rule")
			if i > 0 && rapid.Bool().Draw(t, "lead") {
				rule = "-g " + r.Chains[rapid.IntRange(0, i-1).Draw(t, "to")].Name
			}
			c.Rules = append(c.Rules, rule)
		}
		r.Chains = append(r.Chains, c)
	}
	for _, base := range []string{"PREROUTING", "OUTPUT"} {
		if n > 0 && rapid.Bool().Draw(t, "jump") {
			r.Jumps = append(r.Jumps, Jump{Table: NAT, Base: base, Rule: JumpComment("x") + " -j " + r.Chains[n-1].Name, Last: rapid.Bool().Draw(t, "last")})
		}
	}
	return r
}

// TestTransitions proves that from any ruleset any other is reached in one
// transaction, or in parts, with a foreign chain and rule untouched, and that then nothing
// is left.
func TestTransitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newFake()
		if err := k.load("*nat\n:TOY-MINE - [0:0]\n-A OUTPUT -p udp -j TOY-MINE\nCOMMIT\n"); err != nil {
			t.Fatal(err)
		}
		most := rapid.IntRange(0, 3).Draw(t, "most")
		for range 4 {
			want := anyRuleset(t)
			if err := apply(context.Background(), k, want, Diff(want, state(t, k)), most); err != nil {
				t.Fatal(err)
			}
			st := state(t, k)
			if d := Diff(want, st); !d.Empty() {
				t.Fatalf("left: %v", d.Changes(NFT))
			}
			if st.Foreign() != 2 || len(st.Tables[NAT].Chains) != len(want.Chains) {
				t.Fatalf("kernel holds\n%s", k.Dump())
			}
		}
		if most == 0 && k.calls > 5 {
			t.Fatalf("%d transactions for 4 changes", k.calls-1)
		}
	})
}

// TestGuests proves that a rule of somebody else that leads to a chain of ours
// goes with that chain, and is named; and that it stays as long as the chain does.
func TestGuests(t *testing.T) {
	k := newFake()
	const guest = "-s 192.0.2.7/32 -j TOY-SVC-BBBBBBBBBBBBBBBB"
	for _, text := range []string{web().Text(), "*nat\n-A OUTPUT " + guest + "\nCOMMIT\n"} {
		if err := k.load(text); err != nil {
			t.Fatal(err)
		}
	}
	without := web()
	without.Chains = slices.Delete(without.Chains, 2, 3)
	without.Chains[2].Rules = without.Chains[2].Rules[:1]
	without.Jumps = without.Jumps[:2]
	d := Diff(without, state(t, k))
	want := "~ iptables-nft nat chain TOY-SERVICES: rule that does not belong in our chain: -d 10.96.0.2/32 -g TOY-SVC-BBBBBBBBBBBBBBBB\n" +
		"- iptables-nft nat jumps in OUTPUT: jump to TOY-SERVICES not wanted in OUTPUT; " +
		"rule in OUTPUT that is not ours leads to chain TOY-SVC-BBBBBBBBBBBBBBBB, which goes: " + guest + "\n" +
		"- iptables-nft nat chain TOY-SVC-BBBBBBBBBBBBBBBB: chain not wanted\n"
	got := ""
	for _, c := range d.Changes(NFT) {
		got += c.String() + "\n"
	}
	if got != want {
		t.Errorf("changes\n%swant\n%s", got, want)
	}
	if err := apply(context.Background(), k, without, d, 0); err != nil {
		t.Fatal(err)
	}
	if left := Diff(without, state(t, k)); !left.Empty() {
		t.Errorf("left after apply: %v", left.Changes(NFT))
	}
}

// TestRefusedChain proves that a chain which the kernel refuses is named with
// its Service, and that everything else is made nevertheless.
func TestRefusedChain(t *testing.T) {
	k := newFake()
	k.refuse = "10.0.0.2:80"
	err := apply(context.Background(), k, web(), Diff(web(), state(t, k)), 0)
	var refused *RestoreError
	if !errors.As(err, &refused) || refused.For != "default/b" || refused.Chain != "TOY-SVC-BBBBBBBBBBBBBBBB" {
		t.Fatalf("error %v, want one that names default/b", err)
	}
	left := Diff(web(), state(t, k)).Edits
	if len(left) != 1 || left[0].Chain != "TOY-SVC-BBBBBBBBBBBBBBBB" {
		t.Errorf("left to do %v, want TOY-SVC-BBBBBBBBBBBBBBBB alone\n%s", left, k.Dump())
	}
	next := web()
	next.Chains[1].Rules = []string{"-p tcp -j DNAT --to-destination 10.0.0.3:80"}
	if err := apply(context.Background(), k, next, Diff(next, state(t, k)), 0); err == nil {
		t.Error("the second apply says nothing of the refused chain")
	}
	if got := state(t, k).Tables[NAT].Chains["TOY-SVC-AAAAAAAAAAAAAAAA"]; len(got) != 1 || !strings.Contains(got[0], "10.0.0.3") {
		t.Errorf("Service a did not follow its change: %q", got)
	}
	k.refuse = ""
	if err := apply(context.Background(), k, Ruleset{Family: dataplane.IPv4}, Diff(Ruleset{Family: dataplane.IPv4}, state(t, k)), 0); err != nil {
		t.Errorf("removal: %v", err)
	}
}

// TestAllRefused proves that a kernel which takes nothing is not asked for ever.
func TestAllRefused(t *testing.T) {
	k := newFake()
	k.refuse = "DNAT"
	r := Ruleset{Family: dataplane.IPv4}
	for i := range 1000 {
		r.Chains = append(r.Chains, Chain{Table: NAT, Name: fmt.Sprintf("TOY-0.0.%d.%d", i/250, i%250), Rules: []string{"-j DNAT"}})
	}
	if err := apply(context.Background(), k, r, Diff(r, state(t, k)), 0); err == nil || k.calls > 200 {
		t.Errorf("error %v after %d transactions", err, k.calls)
	}
	k.err = &LockError{Path: "/run/xtables.lock", Holder: "flock (process 7)"}
	k.calls = 0
	if err := apply(context.Background(), k, r, Diff(r, state(t, k)), 0); !errors.Is(err, k.err) || k.calls != 1 {
		t.Errorf("error %v after %d calls, want the lock error after one", err, k.calls)
	}
}
