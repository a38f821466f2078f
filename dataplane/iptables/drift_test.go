package iptables

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestDrift proves that whatever somebody does to our rules, the plan shows
// exactly that and applying it repairs exactly that.
func TestDrift(t *testing.T) {
	key := tables.Small().Frontends[0].Key
	for _, tc := range []struct {
		name   string
		damage []string // iptables commands; SVC stands for the chain of web
		want   []string // changes: op, table, chain, beginning of the reason
	}{
		{"nothing", nil, nil},
		{"rule deleted", []string{"-t nat -D TOY-MARK-MASQ 1"},
			[]string{"~ nat chain TOY-MARK-MASQ: rule missing: -j MARK --set-xmark 0x4000/0xc000"}},
		{"chain flushed", []string{"-t nat -F SVC"}, []string{"~ nat chain SVC: rule missing, 2 times, the first: -p tcp -m comment"}},
		{"chain deleted", []string{"-t filter -D FORWARD -m comment --comment toyproxy:_ -j TOY-FORWARD",
			"-t filter -F TOY-FORWARD", "-t filter -X TOY-FORWARD"},
			[]string{"+ filter chain TOY-FORWARD: chain missing", "+ filter jumps in FORWARD: jump to TOY-FORWARD missing in FORWARD"}},
		{"rule added", []string{"-t nat -A SVC -j RETURN"},
			[]string{"~ nat chain SVC: rule that does not belong in our chain: -j RETURN"}},
		{"rules in another order", []string{"-t nat -D TOY-REFUSE -j ACCEPT", "-t nat -I TOY-REFUSE -j ACCEPT"},
			[]string{"~ nat chain TOY-REFUSE: rules in another order"}},
		{"jump deleted", []string{"-t nat -D PREROUTING 1"}, []string{"+ nat jumps in PREROUTING: jump to TOY-SERVICES missing in PREROUTING"}},
		{"jump twice", []string{"-t nat -A OUTPUT -m comment --comment toyproxy:_frontends -j TOY-SERVICES"},
			[]string{"- nat jumps in OUTPUT: duplicate jump to TOY-SERVICES in OUTPUT"}},
		{"other jump", []string{"-t nat -A OUTPUT -p udp -m comment --comment toyproxy:_frontends -j TOY-SERVICES"},
			[]string{"- nat jumps in OUTPUT: jump to TOY-SERVICES not wanted in OUTPUT"}},
		{"stale chain", []string{"-t nat -N TOY-SVC-OLDOLDOLDOLDOLDO", "-t nat -A TOY-SVC-OLDOLDOLDOLDOLDO -j ACCEPT"},
			[]string{"- nat chain TOY-SVC-OLDOLDOLDOLDOLDO: chain not wanted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			names := strings.NewReplacer("SVC ", frontendChain(key)+" ", "SVC:", frontendChain(key)+":")
			eachEngine(t, func(t *testing.T, e xtables.Engine) {
				l := lab.New(t, lab.WithPods(0))
				b := New(Config{Engine: e})
				l.Node.Do(func() { converge(t, b, tables.Small()) })
				before := dump(l.Node, e)
				damage(l.Node, e, tc.damage, names)
				l.Node.Do(func() { checkChanges(t, plan(t, b, tables.Small()), tc.want, names) })
				l.Node.Do(func() { converge(t, b, tables.Small()) })
				if after := dump(l.Node, e); after != before {
					t.Errorf("after the repair:\n%s\nwant:\n%s", after, before)
				}
			})
		})
	}
}

// damage runs iptables commands; '_' in an argument stands for a blank.
func damage(node *lab.Host, e xtables.Engine, commands []string, names *strings.Replacer) {
	for _, c := range commands {
		args := strings.Fields(names.Replace(c + " "))
		for i, a := range args {
			if a == "toyproxy:_" {
				a = "toyproxy: forward what Services and Pods send"
			}
			args[i] = strings.ReplaceAll(a, "_", " ")
		}
		node.Run(append([]string{"iptables-" + e.String()}, args...)...)
	}
}

func checkChanges(t *testing.T, p dataplane.Plan, want []string, names *strings.Replacer) {
	t.Helper()
	var got []string
	for _, c := range p.Changes() {
		_, object, _ := strings.Cut(c.Object, " ")
		got = append(got, string(c.Op)+" "+object+": "+c.Reason)
	}
	same := slices.EqualFunc(got, want, func(g, w string) bool { return strings.HasPrefix(g, names.Replace(w)) })
	if !same {
		t.Errorf("changes %q\nwant     %q", got, want)
	}
}

// dump is everything one engine holds, without counters, time and what iptables
// says about the other engine.
func dump(node *lab.Host, e xtables.Engine) string {
	noise := regexp.MustCompile(`(?m)^#.*\n| \[\d+:\d+\]`)
	out := ""
	for _, tool := range []string{"iptables-", "ip6tables-"} {
		out += noise.ReplaceAllString(node.Run(tool+e.String()+"-save"), "")
	}
	return out
}

// TestFlushedTable proves that rules come back after table nat was flushed, ten
// times over, without duplicates, and that foreign rules survive.
func TestFlushedTable(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		tool := "iptables-" + e.String()
		b := New(Config{Engine: e})
		l.Node.Do(func() { converge(t, b, tables.Small()) })
		before := dump(l.Node, e)
		for range 10 {
			l.Node.Run(tool, "-t", "nat", "-F")
			l.Node.Run(tool, "-t", "nat", "-A", "PREROUTING", "-p", "udp", "-m", "comment", "--comment", "foreign -j TOY-X", "-j", "ACCEPT")
			l.Node.Run(tool, "-t", "nat", "-N", "FOREIGN")
			l.Node.Do(func() { converge(t, b, tables.Small()) })
			if n := strings.Count(dump(l.Node, e), "foreign -j TOY-X"); n != 1 {
				t.Fatalf("%d foreign rules after the repair, want 1", n)
			}
			l.Node.Run(tool, "-t", "nat", "-D", "PREROUTING", "-p", "udp", "-m", "comment", "--comment", "foreign -j TOY-X", "-j", "ACCEPT")
			l.Node.Run(tool, "-t", "nat", "-X", "FOREIGN")
		}
		if after := dump(l.Node, e); after != before {
			t.Errorf("after ten rounds:\n%s\nwant:\n%s", after, before)
		}
	})
}

// TestRemove proves that nothing of ours is left: the dumps are those from
// before, with foreign rules, in a namespace that had no rules at all, and when
// a foreign chain leads to one of ours.
func TestRemove(t *testing.T) {
	for _, tc := range []struct {
		name            string
		before, between []string
	}{
		{"empty", nil, nil},
		{"foreign rules", []string{"-t nat -N FOREIGN", "-t nat -A PREROUTING -p tcp -j FOREIGN", "-t filter -P FORWARD DROP",
			"-t filter -A FORWARD -j ACCEPT"}, nil},
		{"chains that look like ours", []string{"-t nat -N TOY-MINE", "-t nat -A TOY-MINE -j ACCEPT",
			"-t nat -A POSTROUTING -s 192.0.2.4 -j TOY-MINE"}, nil},
		{"foreign rules that lead to our chains", nil, []string{"-t nat -A POSTROUTING -s 192.0.2.4 -j TOY-MARK-MASQ"}},
		{"foreign rules only in filter", []string{"-t filter -A INPUT -j ACCEPT"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, e xtables.Engine) {
				l := lab.New(t, lab.WithPods(0))
				if e == xtables.Legacy { // tables of this engine stay once they were used
					damage(l.Node, e, []string{"-t nat -S", "-t filter -S"}, strings.NewReplacer())
					l.Node.Run("ip6tables-legacy", "-t", "nat", "-S")
					l.Node.Run("ip6tables-legacy", "-t", "filter", "-S")
				}
				damage(l.Node, e, tc.before, strings.NewReplacer())
				before := dump(l.Node, xtables.NFT) + dump(l.Node, xtables.Legacy)
				b := New(Config{Engine: e})
				l.Node.Do(func() { converge(t, b, tables.EveryShape()) })
				damage(l.Node, e, tc.between, strings.NewReplacer())
				l.Node.Do(func() { converge(t, b, tables.EveryShape()) })
				l.Node.Do(func() { remove(t, b) })
				if after := dump(l.Node, xtables.NFT) + dump(l.Node, xtables.Legacy); after != before {
					t.Errorf("after removal:\n%s\nwant:\n%s", after, before)
				}
			})
		})
	}
}

func remove(t *testing.T, b *Backend) {
	t.Helper()
	p, err := b.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err = b.Remove(t.Context())
	if err != nil || len(p.Changes()) > 0 {
		t.Errorf("second removal: %v, %v", p.Changes(), err)
	}
}

// TestForeignReference proves that a chain of ours that a foreign chain leads to
// is emptied, reported, and no obstacle to anything.
func TestForeignReference(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		b := New(Config{Engine: e})
		l.Node.Do(func() { converge(t, b, tables.Small()) })
		damage(l.Node, e, []string{"-t nat -N FOREIGN", "-t nat -A FOREIGN -j TOY-SERVICES"}, strings.NewReplacer())
		l.Node.Do(func() { remove(t, b) })
		left := dump(l.Node, e)
		if !strings.Contains(left, "-A FOREIGN -j TOY-SERVICES") || strings.Contains(left, "-A TOY-") || strings.Count(left, ":TOY-") != 1 {
			t.Errorf("left:\n%s", left)
		}
	})
}

// TestOtherEngine proves that what an earlier run left in the other engine goes
// in the same pass, after the new rules came, and that foreign rules there stay.
func TestOtherEngine(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		old := e.Other()
		l.Node.Do(func() { converge(t, New(Config{Engine: old}), tables.Small()) })
		damage(l.Node, old, []string{"-t nat -A OUTPUT -p udp -j RETURN"}, strings.NewReplacer())
		l.Node.Do(func() {
			b := New(Config{Engine: e})
			changes := plan(t, b, tables.Small()).Changes()
			if last := changes[len(changes)-1]; last.Op != dataplane.Remove || !strings.Contains(last.Object, old.String()) {
				t.Errorf("last change %s, want a removal in the other engine", last)
			}
			converge(t, b, tables.Small())
		})
		left := dump(l.Node, old)
		if strings.Contains(left, "TOY-") || !strings.Contains(left, "-A OUTPUT -p udp -j RETURN") {
			t.Errorf("left in the other engine:\n%s", left)
		}
	})
}
