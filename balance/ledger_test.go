package balance_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
)

func nameIn(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// bruteForce joins parts without any memory: the oldest Service takes all its
// frontends, then the next one what is left.
func bruteForce(n balance.Node, parts map[string]balance.Part) dataplane.Table {
	table, _ := balance.Join(n, nil)
	taken, used := map[dataplane.Key]string{}, map[string]bool{}
	var order []balance.Part
	born := func(p balance.Part) int64 {
		if p.Service.CreationTimestamp.IsZero() {
			return 1 << 60
		}
		return p.Service.CreationTimestamp.Unix()
	}
	byAge := slices.SortedFunc(maps.Values(parts), func(a, b balance.Part) int {
		return cmp.Or(cmp.Compare(born(a), born(b)), cmp.Compare(a.Service.Name, b.Service.Name))
	})
	for _, p := range slices.Concat(byAge, byAge) { // ClusterIPs go first
		turn := len(order) < len(byAge)
		order = append(order, p)
		for _, fe := range p.Frontends {
			port := fe.Key // the node port that answers there, perhaps an older one's
			if slices.Contains(table.Node.Addrs, fe.Addr) && fe.Kind != dataplane.ClusterIP {
				port.Addr = map[bool]netip.Addr{true: netip.IPv4Unspecified(), false: netip.IPv6Unspecified()}[fe.Addr.Is4()]
			}
			free := taken[fe.Key] == "" && (taken[port] == "" || taken[port] == p.Service.Name)
			if (fe.Kind == dataplane.ClusterIP) == turn && free {
				taken[fe.Key] = p.Service.Name
				table.Frontends = append(table.Frontends, fe)
				for _, r := range fe.Routes {
					used[r.Set] = true
				}
			}
		}
	}
	for _, p := range byAge {
		for _, s := range p.Sets {
			if used[s.Name] {
				table.Sets = append(table.Sets, s)
			}
		}
	}
	table.Sort()
	return table
}

// applied is a table after a change: all that is before goes, all that is after
// comes. Both have to be there, or not, as the change says.
func applied(t *rapid.T, table dataplane.Table, d dataplane.Delta) dataplane.Table {
	for _, fe := range d.Before.Frontends {
		if _, ok := table.Frontend(fe.Key); !ok {
			t.Fatalf("%s is said to have been there", fe.Key)
		}
	}
	gone := func(fe dataplane.Frontend) bool { _, ok := d.Before.Frontend(fe.Key); return ok }
	goneSet := func(s dataplane.EndpointSet) bool { _, ok := d.Before.Set(s.Name); return ok }
	out := dataplane.Table{Node: table.Node}
	out.Frontends = append(slices.DeleteFunc(slices.Clone(table.Frontends), gone), d.After.Frontends...)
	out.Sets = append(slices.DeleteFunc(slices.Clone(table.Sets), goneSet), d.After.Sets...)
	out.Sort()
	return out
}

// ledgerWorld is what a ledger was told.
type ledgerWorld struct {
	node   balance.Node
	parts  map[string]balance.Part
	ledger *balance.Ledger
}

// change draws a few Services that come, change or go at once.
func (w *ledgerWorld) change(t *rapid.T) (set []balance.Part, gone []types.NamespacedName) {
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 3, rapid.ID).Draw(t, "names") {
		if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
			gone = append(gone, nameIn(name))
			delete(w.parts, name)
			continue
		}
		var given []*discoveryv1.EndpointSlice
		for i := range rapid.IntRange(0, 2).Draw(t, "slices") {
			given = append(given, drawSlice(t, fmt.Sprint(name, i)))
		}
		svc := drawOpenService(t, name)
		if old, ok := w.parts[name]; ok && rapid.Bool().Draw(t, "same Service") {
			svc = old.Service
		}
		w.parts[name] = balance.MakePart(w.node, svc, given)
		set = append(set, w.parts[name])
	}
	return set, gone
}

// problems are those of each Service by a ledger that begins with these parts.
func (w *ledgerWorld) problems() map[types.NamespacedName][]string {
	fresh := balance.NewLedger(w.node, slices.Collect(maps.Values(w.parts)))
	out := map[types.NamespacedName][]string{}
	for name := range w.parts {
		out[nameIn(name)] = texts(fresh.ProblemsOf(nameIn(name)))
	}
	return out
}

// Whatever Services come, change and go, in whatever order: the table of the
// ledger is what brute force makes of the parts, the change that it tells leads
// from the table before to it and names no Service that has what it had, and
// whose problems are others is told.
func TestLedgerFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		w := &ledgerWorld{n, map[string]balance.Part{}, balance.NewLedger(n, nil)}
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			before, problems := w.ledger.Table(), w.problems()
			d, told := w.ledger.Update(w.change(t))
			after := w.ledger.Table()
			checkCanonical(t, after)
			if diff := sameTable(bruteForce(n, w.parts), after); diff != "" {
				t.Fatalf("(-brute force +ledger):\n%s", diff)
			}
			if diff := sameTable(applied(t, before, d), after); diff != "" {
				t.Fatalf("(-table with the change +table after it):\n%s", diff)
			}
			checkView(t, after, w.ledger)
			checkWhole(t, before, d.Before, d)
			checkWhole(t, after, d.After, d)
			for name, now := range w.problems() {
				if got := texts(w.ledger.ProblemsOf(name)); !slices.Equal(got, now) {
					t.Fatalf("%s has problems %v, from scratch %v", name, got, now)
				}
				if !slices.Equal(now, problems[name]) && !slices.Contains(told, name) {
					t.Fatalf("%s has other problems now and is not told of", name)
				}
			}
		}
	})
}

// checkView: whoever asks the ledger hears what the table says.
func checkView(t *rapid.T, table dataplane.Table, l *balance.Ledger) {
	for _, fe := range table.Frontends {
		if got, ok := l.Frontend(fe.Key); !ok || got.Service != fe.Service || got.Routes != fe.Routes {
			t.Fatalf("the ledger has at %s %v, the table %v", fe.Key, got, fe)
		}
	}
	for _, s := range table.Sets {
		if got, ok := l.Set(s.Name); !ok || !slices.Equal(got.Endpoints, s.Endpoints) {
			t.Fatalf("the ledger has as set %s %v, the table %v", s.Name, got, s)
		}
	}
	var _ dataplane.View = l
	_, served := l.Frontend(dataplane.Key{Port: 7})
	_, made := l.Set("default/a:none/tcp/IPv4/cluster")
	if served || made {
		t.Fatal("the ledger has what the table does not have")
	}
}

// checkWhole: of the Services that a change touches one side has all that the
// table has, nothing of others, and not the same as the other side.
func checkWhole(t *rapid.T, table, side dataplane.Table, d dataplane.Delta) {
	touched := map[string]bool{}
	for _, fe := range slices.Concat(d.Before.Frontends, d.After.Frontends) {
		touched[serviceOf(fe.Service)] = true
	}
	want := dataplane.Table{Node: table.Node}
	for _, fe := range table.Frontends {
		if touched[serviceOf(fe.Service)] {
			want.Frontends = append(want.Frontends, fe)
		}
	}
	for _, s := range table.Sets {
		if touched[serviceOf(s.Service)] {
			want.Sets = append(want.Sets, s)
		}
	}
	if diff := sameTable(want, side); diff != "" {
		t.Fatalf("not the whole Services (-table +change):\n%s", diff)
	}
	for name := range touched {
		if sameTable(ofService(d.Before, name), ofService(d.After, name)) == "" {
			t.Fatalf("%s has what it had, and is in the change", name)
		}
	}
}

func ofService(t dataplane.Table, name string) dataplane.Table {
	var out dataplane.Table
	for _, fe := range t.Frontends {
		if serviceOf(fe.Service) == name {
			out.Frontends = append(out.Frontends, fe)
		}
	}
	for _, s := range t.Sets {
		if serviceOf(s.Service) == name {
			out.Sets = append(out.Sets, s)
		}
	}
	return out
}

// serviceOf cuts the port off an origin.
func serviceOf(origin string) string {
	for i := range origin {
		if origin[i] == ':' {
			return origin[:i]
		}
	}
	return origin
}

// B25, bit by bit: what the older Service leaves the other takes over, whole.
func TestLedgerPassesOn(t *testing.T) {
	n := openNode()
	part := func(svc *corev1.Service) balance.Part { return balance.MakePart(n, svc, pods("a@n1")) }
	old, young := named("z", "10.96.1.1", withExternal(places["N1"]), born(2024)), named("a", "10.96.1.2", withExternal(places["N1"]), born(2025))
	np := named("np", "10.96.1.3", withNodePort(80))
	l := balance.NewLedger(n, []balance.Part{part(young), part(np)})
	d, told := l.Update([]balance.Part{part(old)}, nil)
	equal(t, "told when the older comes", told, []types.NamespacedName{nameIn("a"), nameIn("np"), nameIn("z")})
	equal(t, "before", keysOf(d.Before), []string{"10.96.1.2:80/tcp", "192.168.0.2:80/tcp"})
	equal(t, "after", keysOf(d.After), []string{"10.96.1.1:80/tcp", "10.96.1.2:80/tcp", "192.168.0.2:80/tcp"})
	equal(t, "who is told of the shadow", texts(l.ProblemsOf(nameIn("np"))), []string{"warning: Service default/np: spec.ports[0].nodePort: " +
		"node port 80 does not answer on 192.168.0.2:80/tcp, which Service default/z has as its ExternalIP: choose another node port"})
	if got := l.ProblemsOf(nameIn("a")); len(got) != 1 || len(l.Problems()) != 2 {
		t.Errorf("problems %v, of all %v", texts(got), texts(l.Problems()))
	}
	d, _ = l.Update([]balance.Part{part(old)}, nil)
	if !d.Empty() {
		t.Errorf("the same again is a change: %v → %v", keysOf(d.Before), keysOf(d.After))
	}
	d, _ = l.Update(nil, []types.NamespacedName{nameIn("z"), nameIn("nobody")})
	equal(t, "after the older went", keysOf(d.After), []string{"10.96.1.2:80/tcp", "192.168.0.2:80/tcp"})
	if got := l.ProblemsOf(nameIn("a")); len(got) > 0 {
		t.Errorf("problems %v", texts(got))
	}
}

func keysOf(t dataplane.Table) []string {
	var out []string
	for _, fe := range t.Frontends {
		out = append(out, fe.Key.String())
	}
	return out
}
