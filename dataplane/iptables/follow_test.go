package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// world is Services by name, as parts of a table, that change at random.
type world struct {
	*rand.Rand
	services map[string]dataplane.Table
	taken    map[dataplane.Key]string
}

func newWorld(seed uint64) *world {
	return &world{rand.New(rand.NewPCG(seed, 0)), map[string]dataplane.Table{}, map[dataplane.Key]string{}}
}

// table joins the Services.
func (w *world) table(names ...string) dataplane.Table {
	t := dataplane.Table{Node: tables.Node()}
	for _, n := range names {
		t.Frontends = append(t.Frontends, w.services[n].Frontends...)
		t.Sets = append(t.Sets, w.services[n].Sets...)
	}
	t.Sort()
	return t
}

func (w *world) all() dataplane.Table { return w.table(slices.Sorted(maps.Keys(w.services))...) }

// step changes up to three of some Services, and returns what that changes.
func (w *world) step(services int) dataplane.Delta {
	var names []string
	for range 1 + w.IntN(3) {
		if n := fmt.Sprintf("default/s%d:p", w.IntN(services)); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	d := dataplane.Delta{Before: w.table(names...)}
	for _, n := range names {
		w.remake(n)
	}
	d.After = w.table(names...)
	return d
}

// remake gives a Service other frontends and endpoints, or none.
func (w *world) remake(name string) {
	old := w.services[name]
	if w.IntN(3) == 0 && len(old.Sets) > 0 { // endpoints only
		s := &old.Sets[w.IntN(len(old.Sets))]
		s.Endpoints = w.endpoints(dataplane.FamilyOf(s.Endpoints[0].Addr.Addr()))
		return
	}
	for _, fe := range old.Frontends {
		delete(w.taken, fe.Key)
	}
	var t dataplane.Table
	if w.IntN(4) > 0 {
		for range 1 + w.IntN(3) {
			w.addSet(&t, name)
		}
		for range 1 + w.IntN(4) {
			w.addFrontend(&t, name)
		}
	}
	t.Sort()
	w.services[name] = t
}

func (w *world) addSet(t *dataplane.Table, service string) {
	f := []dataplane.Family{dataplane.IPv4, dataplane.IPv6}[w.IntN(2)]
	s := dataplane.EndpointSet{Name: fmt.Sprintf("%s/%d", service, len(t.Sets)), Service: service, Protocol: dataplane.TCP, Endpoints: w.endpoints(f)}
	if w.IntN(3) == 0 {
		s.Affinity = time.Duration(1+w.IntN(2)) * time.Hour
	}
	t.Sets = append(t.Sets, s)
}

// endpoints are some, of which few live here.
func (w *world) endpoints(f dataplane.Family) []dataplane.Endpoint {
	var out []dataplane.Endpoint
	last := w.IntN(250)
	for range 1 + w.IntN(1+w.IntN(20)) {
		a := netip.AddrFrom4([4]byte{10, 244, byte(w.IntN(2)), byte(last)})
		if f == dataplane.IPv6 {
			a = netip.AddrFrom16([16]byte{0xfd, 0, 0, 0x10, 2, 0x44, 14: byte(w.IntN(2)), 15: byte(last)})
		}
		out = append(out, dataplane.Endpoint{Addr: netip.AddrPortFrom(a, 8080), Weight: uint16(1 + w.IntN(3)), Local: w.IntN(3) == 0})
		last++
	}
	slices.SortFunc(out, func(a, b dataplane.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return slices.CompactFunc(out, func(a, b dataplane.Endpoint) bool { return a.Addr == b.Addr })
}

// addFrontend adds one at an address that is crowded, lonely, the node's or
// nobody's own.
func (w *world) addFrontend(t *dataplane.Table, service string) {
	s := t.Sets[w.IntN(len(t.Sets))]
	fe := dataplane.Frontend{Service: service, Kind: dataplane.Kind(w.IntN(4))}
	fe.Protocol, fe.Port = []dataplane.Protocol{dataplane.TCP, dataplane.UDP}[w.IntN(2)], uint16(1+w.IntN(40))
	six := dataplane.FamilyOf(s.Endpoints[0].Addr.Addr()) == dataplane.IPv6
	four, wide := [4]byte{10, 96, byte(w.IntN(3)), byte(w.IntN(1 + w.IntN(60)))}, [16]byte{0xfd, 0, 0, 0x10, 0, 0x96, 14: byte(w.IntN(2)), 15: byte(w.IntN(40))}
	fe.Addr = netip.AddrFrom4(four)
	if six {
		fe.Addr = netip.AddrFrom16(wide)
	}
	if fe.Kind == dataplane.NodePort {
		fe.Addr = netip.IPv4Unspecified()
		if six {
			fe.Addr = netip.IPv6Unspecified()
		}
		fe.Port = uint16(30000 + w.IntN(300))
	}
	if fe.Kind == dataplane.ExternalIP {
		fe.Addr = tables.Node().Addrs[0]
		if six {
			fe.Addr = tables.Node().Addrs[1]
		}
	}
	if w.taken[fe.Key] != "" {
		return
	}
	w.taken[fe.Key] = service
	for c := range fe.Routes {
		fe.Routes[c] = dataplane.Route{Verdict: dataplane.Forward, Set: s.Name, Masquerade: c > 0}
	}
	if w.IntN(5) == 0 {
		fe.Routes[dataplane.FromOutside] = dataplane.Route{Verdict: dataplane.Verdict(1 + w.IntN(2))}
	}
	if w.IntN(6) == 0 {
		fe.Allowed = []netip.Prefix{netip.PrefixFrom(fe.Addr, 8).Masked()}
	}
	t.Frontends = append(t.Frontends, fe)
}

// loaded is the chains that a kernel holds, by table and name.
type loaded map[string]map[string][]string

// load does to the chains what iptables-restore --noflush would do, and fails
// where that would.
func (k loaded) load(text string) error {
	table := ""
	for line := range strings.Lines(strings.TrimSuffix(text, "\n")) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.SplitN(line, " ", 3)
		switch words[0] {
		case "-A":
			chain := k[table][words[1]]
			k[table][words[1]] = append(chain, words[2])
		case "-X":
			if rules, there := k[table][words[1]]; !there || len(rules) > 0 {
				return fmt.Errorf("%s: not there, or not empty", line)
			}
			delete(k[table], words[1])
		case "COMMIT":
			for name, rules := range k[table] {
				for _, r := range rules {
					to := r[strings.LastIndexByte(r, ' ')+1:]
					if _, there := k[table][to]; strings.HasPrefix(to, xtables.Prefix) && !there {
						return fmt.Errorf("%s of %s leads to %s, which is not there", r, name, to)
					}
				}
			}
		default:
			if strings.HasPrefix(line, "*") {
				table = line[1:]
			} else {
				k[table][words[0][1:]] = nil
			}
		}
	}
	return nil
}

// TestFollowChains proves over many random steps that the chains which a change
// names, and no others, lead from the rules of one table to those of the next.
func TestFollowChains(t *testing.T) {
	for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
		w := newWorld(7)
		_, m := remember(w.all().ForFamily(f), f, means{randomFully: true})
		k := loaded{"nat": {}, "filter": {}}
		for _, c := range Ruleset(w.all(), f, true).Chains {
			k[string(c.Table)][c.Name] = c.Rules
		}
		for n := range 500 {
			d := w.step(1 + 3*(n/20))
			delta, err := m.change(d.Before.ForFamily(f), d.After.ForFamily(f))
			if err != nil {
				t.Fatalf("%s, step %d: %v", f, n, err)
			}
			if err := k.load(delta.Text()); err != nil {
				t.Fatalf("%s, step %d: %v\n%s", f, n, err, delta.Text())
			}
			want := loaded{"nat": {}, "filter": {}}
			for _, c := range Ruleset(w.all(), f, true).Chains {
				want[string(c.Table)][c.Name] = c.Rules
			}
			for _, table := range []string{"nat", "filter"} {
				same := maps.EqualFunc(want[table], k[table], func(a, b []string) bool { return slices.Equal(a, b) })
				if !same {
					t.Fatalf("%s, step %d: table %s differs\n%s", f, n, table, missing(want[table], k[table]))
				}
			}
		}
	}
}

// missing tells the first chains that differ.
func missing(want, got map[string][]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if rules, there := got[name]; !there || !slices.Equal(rules, want[name]) {
			fmt.Fprintf(&out, "%s (there: %t)\n  want %q\n  have %q\n", name, there, want[name], rules)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[name]; !there {
			fmt.Fprintf(&out, "%s is not wanted\n", name)
		}
	}
	return out.String()
}

// TestFollowFew proves that among thousands of Services a change names a handful
// of chains: those of its Service, and one a level of the trees.
func TestFollowFew(t *testing.T) {
	table := tables.Many(5000, 10)
	service := firstService(table)
	moved := firstService(table)
	moved.Frontends = slices.Clone(moved.Frontends)
	moved.Frontends[0].Port++
	door := firstService(table)
	node := door.Frontends[0]
	node.Kind, node.Addr, node.Port = dataplane.NodePort, netip.IPv4Unspecified(), 30000
	door.Frontends = []dataplane.Frontend{node, door.Frontends[0]}
	_, endpoint := nextEndpoint(service, 1)
	here := firstService(table)
	here.Sets = slices.Clone(endpoint.Sets)
	here.Sets[0].Endpoints = slices.Clone(here.Sets[0].Endpoints)
	here.Sets[0].Endpoints[0].Local = true
	for _, tc := range []struct {
		name          string
		before, after dataplane.Table
		edits         int
	}{
		{"nothing", service, service, 0},
		{"another endpoint", service, endpoint, 1},
		{"an endpoint lives here", service, here, 2},
		{"another port", service, moved, 3},
		{"Service gone", service, dataplane.Table{}, 2},
		{"first NodePort", service, door, 8}, // whose address gives the tree another root
	} {
		_, m := remember(table.ForFamily(dataplane.IPv4), dataplane.IPv4, means{randomFully: true})
		d, err := m.change(tc.before, tc.after)
		if err != nil || len(d.Edits) != tc.edits {
			t.Errorf("%s: %d chains, want %d; %v", tc.name, len(d.Edits), tc.edits, err)
			for _, e := range d.Edits {
				t.Logf("%c %s: %s", e.Op, e.Chain, e.Reason)
			}
		}
	}
}

// TestFollow proves in the kernel that after each change, of which some are not
// written, a plan that reads the kernel has nothing to do.
func TestFollow(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		node, w, b := lab.New(t, lab.WithPods(0)).Node, newWorld(3), New(Config{Engine: e})
		f := b.Follow()
		forgotten := 0
		for range 60 {
			d := w.step(12)
			node.Do(func() {
				p, err := f.PlanChange(t.Context(), d)
				if errors.Is(err, dataplane.ErrForgotten) {
					forgotten++
					p, err = f.Plan(t.Context(), w.all())
				}
				if err != nil {
					t.Fatal(err)
				}
				if w.IntN(8) == 0 {
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					if err := p.Apply(ctx); err == nil && len(p.Changes()) > 0 {
						t.Fatal("a pass that was ended had no error")
					}
					return
				}
				if err := p.Apply(t.Context()); err != nil {
					t.Fatalf("apply: %v", err)
				}
				for _, c := range plan(t, b, w.all()).Changes() {
					t.Fatalf("still to do: %s\n%q", c, c.Lines)
				}
			})
		}
		if forgotten == 0 || forgotten > 20 {
			t.Errorf("%d of 60 steps took a whole pass", forgotten)
		}
	})
}

// TestForgotten proves that a follower does not vouch for what it cannot know:
// before a whole pass, while a plan is not applied, after one that failed halfway,
// and when an older plan was applied after a newer.
func TestForgotten(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		node, b := lab.New(t, lab.WithPods(0)).Node, New(Config{Engine: e})
		var none, web dataplane.Table
		none.Node = tables.Node()
		web.Node = tables.Node()
		tables.ClusterIP(&web, "default/web:http", "10.96.0.10:80", dataplane.TCP, "10.244.0.11:8080")
		comes, goes := dataplane.Delta{Before: none, After: web}, dataplane.Delta{Before: web, After: none}
		other := dataplane.Table{Node: tables.Node()}
		tables.ClusterIP(&other, "default/other", "10.96.0.11:80", dataplane.TCP, "10.244.0.12:8080")
		node.Do(func() {
			f := b.Follow()
			change := func(d dataplane.Delta) (dataplane.Plan, bool) {
				p, err := f.PlanChange(t.Context(), d)
				if err != nil && !errors.Is(err, dataplane.ErrForgotten) {
					t.Fatal(err)
				}
				return p, err == nil
			}
			pass := func(table dataplane.Table) {
				p, err := f.Plan(t.Context(), table)
				if err == nil {
					err = p.Apply(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			expect := func(what string, known bool) {
				t.Helper()
				if _, ok := change(comes); ok != known {
					t.Errorf("%s: known %t", what, ok)
				}
			}
			expect("at the beginning", false)
			pass(other)
			expect("after a whole pass", true)
			expect("while a plan is not applied", false)
			pass(other)
			older, _ := change(comes)
			pass(other)
			if err := older.Apply(t.Context()); err != nil {
				t.Error(err)
			}
			expect("an older plan was applied later", false)
			// A rule of somebody else keeps the chain, and so the kernel refuses.
			web.Frontends = append(web.Frontends, other.Frontends...)
			web.Sets = append(web.Sets, other.Sets...)
			web.Sort()
			pass(web)
			guest := []string{"iptables-" + e.String(), "-t", "nat", "-A", "OUTPUT", "-j", frontendChain(comes.After.Frontends[0].Key)}
			node.Run(guest...)
			p, _ := change(goes)
			if err := p.Apply(t.Context()); err == nil {
				t.Error("a chain went that a rule leads to")
			}
			expect("after a plan that failed", false)
			pass(other)
			expect("after the pass that mended it", true)
		})
	})
}
