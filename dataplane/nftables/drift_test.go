package nftables

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestDrift proves that whatever somebody does to our table, the plan shows
// exactly that and applying it repairs exactly that.
func TestDrift(t *testing.T) {
	const svc2, row = "element ip toyproxy svc2 { 10.96.0.10 . tcp . 80 }", "element ip toyproxy endpoints { 10.96.0.10 . tcp . 80 . 1 : 10.244.0.12 . 8080 }"
	for _, tc := range []struct {
		name   string
		damage []string // nft commands
		want   []string // changes: op, object without "nft ip toyproxy", beginning of the reason
	}{
		{"nothing", nil, nil},
		{"element deleted", []string{"delete " + svc2}, []string{"+ element of set svc2 10.96.0.10 . tcp . 80: element missing"}},
		{"element added", []string{"add element ip toyproxy svc2 { 10.96.9.9 . udp . 53 }"},
			[]string{"- element of set svc2 10.96.9.9 . udp . 53: element not wanted"}},
		{"row deleted", []string{"delete " + row}, []string{"+ element of map endpoints 10.96.0.10 . tcp . 80 . 1: element missing"}},
		{"row leads elsewhere", []string{"delete " + row, "add " + strings.Replace(row, "0.12", "9.9", 1)},
			[]string{"~ element of map endpoints 10.96.0.10 . tcp . 80 . 1: element is 10.96.0.10 . tcp . 80 . 1 : 10.244.9.9 . 8080"}},
		{"set flushed", []string{"flush set ip toyproxy frontends"}, []string{
			"+ element of set frontends 10.96.0.10 . tcp . 80: element missing", "+ element of set frontends 10.96.0.11 . tcp . 80: element missing"}},
		{"comment lost", []string{"flush set ip toyproxy frontends", `add element ip toyproxy frontends { 10.96.0.10 . tcp . 80, 10.96.0.11 . tcp . 80 comment "default/empty" }`},
			[]string{"~ element of set frontends 10.96.0.10 . tcp . 80: element is"}},
		{"set added", []string{"add set ip toyproxy mine { type ipv4_addr; }"}, []string{"- set mine: set not wanted"}},
		{"rule added", []string{"add rule ip toyproxy services accept"}, []string{"~ chain services: rule that does not belong in our chain"}},
		{"chain flushed", []string{"flush chain ip toyproxy n2"}, []string{"~ chain n2: rule missing, 2 times, the first: dnat ip to"}},
		{"rule replaced", []string{"flush chain ip toyproxy prerouting", "add rule ip toyproxy prerouting counter jump services"},
			[]string{"~ chain prerouting: rule missing: jump services"}},
		{"rule twice", []string{"add rule ip toyproxy output jump services"}, []string{"~ chain output: rules in another order, or twice"}},
		{"chain added", []string{"add chain ip toyproxy x", "add rule ip toyproxy x drop"}, []string{"- chain x: chain not wanted"}},
		{"base chain deleted", []string{"flush chain ip toyproxy output", "delete chain ip toyproxy output"}, []string{"+ chain output: chain missing"}},
		{"as an older toyproxy has it", []string{"delete chain ip toyproxy input", "delete chain ip toyproxy forward", "delete chain ip toyproxy strays"},
			[]string{"+ chain strays: chain missing", "+ chain input: chain missing", "+ chain forward: chain missing"}},
		{"stray rule lost", []string{"flush chain ip toyproxy forward"}, []string{"~ chain forward: rule missing: ct state invalid"}},
		{"hook added", []string{"add chain ip toyproxy y { type filter hook input priority 0; policy drop; }"}, []string{"- chain y: chain not wanted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, lab.WithPods(0))
			b := New(Config{})
			l.Node.Do(func() { tables.Converge(t, b, tables.Small()) })
			before := listed(t, l.Node)
			for _, c := range tc.damage {
				l.Node.Run("nft", c)
			}
			l.Node.Do(func() { checkChanges(t, tables.PlanOf(t, b, tables.Small()), tc.want) })
			l.Node.Do(func() { tables.Converge(t, b, tables.Small()) })
			if diff := cmp.Diff(before, listed(t, l.Node), inAnyOrder); diff != "" {
				t.Errorf("after the repair:\n%s", diff)
			}
		})
	}
}

// inAnyOrder compares lists of lines: what is made again stands last.
var inAnyOrder = cmp.Transformer("sort", func(lines []string) []string { return slices.Sorted(slices.Values(lines)) })

func checkChanges(t *testing.T, p dataplane.Plan, want []string) {
	t.Helper()
	var got []string
	for _, c := range p.Changes() {
		got = append(got, string(c.Op)+" "+strings.TrimPrefix(c.Object, "nft ip toyproxy ")+": "+c.Reason)
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("changes %q\nwant     %q", got, want)
	}
}

// TestTableLost proves that a table that was deleted, or made into something
// else, comes back whole, and that foreign tables survive.
func TestTableLost(t *testing.T) {
	for name, tc := range map[string]struct{ damage, reason string }{
		"deleted":        {"delete table ip toyproxy", "table missing"},
		"ruleset gone":   {"flush ruleset", "table missing"},
		"dormant":        {"add table ip toyproxy { flags dormant; }", "table is dormant"},
		"other policy":   {"add chain ip toyproxy output { policy drop; }", "chain output has another hook, policy or comment"},
		"other priority": {"flush chain ip toyproxy output; delete chain ip toyproxy output; add chain ip toyproxy output { type nat hook output priority 7; }", "chain output has another hook"},
		"other kind": {"flush chain ip toyproxy input; delete chain ip toyproxy input; add chain ip toyproxy input { type nat hook input priority 0; }",
			"chain input has another hook"},
		"other type": {"delete table ip toyproxy; add table ip toyproxy { comment \"" + tableComment + "\"; }; add set ip toyproxy frontends { type ipv4_addr; }", "set frontends has another type"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, lab.WithPods(0))
			b := New(Config{})
			l.Node.Do(func() { tables.Converge(t, b, tables.EveryShape()) })
			before := listed(t, l.Node)
			l.Node.Run("nft", tc.damage)
			l.Node.Run("nft", "add table ip foreign; add chain ip foreign c { type nat hook prerouting priority -100; }")
			foreign := l.Node.Run("nft", "list table ip foreign")
			l.Node.Do(func() {
				if first := tables.PlanOf(t, b, tables.EveryShape()).Changes()[0]; !strings.HasPrefix(first.Reason, tc.reason) {
					t.Errorf("first change %s, want reason %q", first, tc.reason)
				}
				tables.Converge(t, b, tables.EveryShape())
			})
			if diff := cmp.Diff(before, listed(t, l.Node)); diff != "" {
				t.Errorf("after the repair:\n%s", diff)
			}
			if now := l.Node.Run("nft", "list table ip foreign"); now != foreign {
				t.Errorf("foreign table:\n%s\nwant\n%s", now, foreign)
			}
		})
	}
}

// TestRemove proves that nothing of ours is left, and nothing else is touched.
func TestRemove(t *testing.T) {
	for name, foreign := range map[string]string{
		"empty":   "",
		"foreign": "add table ip nat; add chain ip nat x; add rule ip nat x accept; add table inet toyproxy; add table ip toyproxy2",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, lab.WithPods(0))
			if foreign != "" {
				l.Node.Run("nft", foreign)
			}
			before := l.Node.Run("nft", "list ruleset")
			b := New(Config{})
			l.Node.Do(func() { tables.Converge(t, b, tables.EveryShape()) })
			for range 2 {
				l.Node.Do(func() {
					p, err := b.Remove(t.Context())
					if err == nil {
						err = p.Apply(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
				})
			}
			if after := l.Node.Run("nft", "list ruleset"); after != before {
				t.Errorf("after removal:\n%s\nwant:\n%s", after, before)
			}
			l.Node.Do(func() {
				if p, err := b.Remove(t.Context()); err != nil || len(p.Changes()) > 0 {
					t.Errorf("third removal: %v, %v", p.Changes(), err)
				}
			})
		})
	}
}

// TestForeignTable proves that a table that has our name and not our comment is
// nobody's to touch.
func TestForeignTable(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	l.Node.Run("nft", "add table ip6 toyproxy; add chain ip6 toyproxy x")
	before := l.Node.Run("nft", "list ruleset")
	b := New(Config{})
	l.Node.Do(func() {
		if _, err := b.Plan(t.Context(), tables.Small()); err == nil || !strings.Contains(err.Error(), "nft delete table ip6 toyproxy") {
			t.Errorf("plan: %v, want what to do about the table", err)
		}
		if p, err := b.Remove(t.Context()); err != nil || len(p.Changes()) > 0 {
			t.Errorf("removal: %v, %v", p.Changes(), err)
		}
	})
	if after := l.Node.Run("nft", "list ruleset"); after != before {
		t.Errorf("after:\n%s", after)
	}
}

// TestApplyTwice proves that a plan may be applied again, also when what it
// wanted to delete is gone and what it wanted to add is there.
func TestApplyTwice(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	b := New(Config{})
	l.Node.Do(func() {
		tables.Converge(t, b, tables.EveryShape())
		for _, table := range []dataplane.Table{tables.Small(), tables.EveryShape()} {
			p := tables.PlanOf(t, b, table)
			for range 3 {
				if err := p.Apply(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			checkChanges(t, tables.PlanOf(t, b, table), nil)
		}
	})
}
