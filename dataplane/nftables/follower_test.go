package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// pool is a part of a table for each of some Services.
type pool map[string]dataplane.Table

// table is what a node has of all Services, or of those that keep tells.
func (p pool) table(keep func(string) bool) dataplane.Table {
	out := dataplane.Table{Node: tables.Node()}
	for name, t := range p {
		if keep(name) {
			out.Frontends = append(out.Frontends, t.Frontends...)
			out.Sets = append(out.Sets, t.Sets...)
		}
	}
	out.Sort()
	return out
}

func all(string) bool { return true }

// delta is the way from one pool to another.
func (p pool) delta(to pool) dataplane.Delta {
	changed := func(name string) bool { return !reflect.DeepEqual(p[name], to[name]) }
	return dataplane.Delta{Before: p.table(changed), After: to.table(changed)}
}

// anyPool changes some Services of a pool, or adds or removes some.
func anyPool(t *rapid.T, from pool) pool {
	out := maps.Clone(from)
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		i := rapid.IntRange(0, 5).Draw(t, "service")
		name := fmt.Sprintf("default/s%d", i)
		if rapid.IntRange(0, 4).Draw(t, "gone") == 0 {
			delete(out, name)
			continue
		}
		var s dataplane.Table
		for _, f := range rapid.SampledFrom([][]dataplane.Family{{dataplane.IPv4}, {dataplane.IPv6}, {dataplane.IPv4, dataplane.IPv6}}).Draw(t, "families") {
			anyService(t, &s, name, i, f)
		}
		s.Sort()
		out[name] = s
	}
	return out
}

// anyService adds what a Service has of one family: up to four doors, which
// choose from up to two sets.
func anyService(t *rapid.T, out *dataplane.Table, name string, i int, f dataplane.Family) {
	var sets []string
	for s := range rapid.IntRange(0, 2).Draw(t, "sets") {
		set := anyEndpoints(t, name, f)
		set.Name = fmt.Sprintf("%s/%d/%s", name, s, f)
		sets = append(sets, set.Name)
		out.Sets = append(out.Sets, set)
	}
	addr := map[dataplane.Family][]string{dataplane.IPv4: {"10.96.0.%d", "10.96.0.200", "203.0.113.7", "0.0.0.0"},
		dataplane.IPv6: {"fd00:10:96::%d", "fd00:10:96::200", "fd00:203:113::7", "::"}}[f]
	used := map[string]bool{}
	for kind, format := range addr {
		if kind > 0 && rapid.Bool().Draw(t, "no door") {
			continue
		}
		if kind == 0 {
			format = fmt.Sprintf(format, 10+i)
		}
		fe := dataplane.Frontend{Key: dataplane.Key{Addr: netip.MustParseAddr(format), Protocol: dataplane.TCP, Port: uint16(30000 + i)},
			Service: name, Kind: []dataplane.Kind{dataplane.ClusterIP, dataplane.ExternalIP, dataplane.LoadBalancerIP, dataplane.NodePort}[kind]}
		for s := range fe.Routes {
			fe.Routes[s] = dataplane.Route{Verdict: rapid.SampledFrom([]dataplane.Verdict{dataplane.Refuse, dataplane.Drop}).Draw(t, "verdict")}
			if len(sets) > 0 && rapid.IntRange(0, 5).Draw(t, "forward") > 0 {
				set := rapid.SampledFrom(sets).Draw(t, "set")
				fe.Routes[s] = dataplane.Route{Set: set, Masquerade: rapid.Bool().Draw(t, "masquerade")}
				used[set] = true
			}
		}
		fe.Allowed = rapid.SampledFrom([][]netip.Prefix{nil, nil, nil, {}, {netip.PrefixFrom(fe.Addr, 8).Masked()}}).Draw(t, "allowed")
		out.Frontends = append(out.Frontends, fe)
	}
	out.Sets = slices.DeleteFunc(out.Sets, func(s dataplane.EndpointSet) bool { return slices.Contains(sets, s.Name) && !used[s.Name] })
}

// anyEndpoints draws endpoints that several Services share, as many as lie on
// both sides of the borders between classes.
func anyEndpoints(t *rapid.T, name string, f dataplane.Family) dataplane.EndpointSet {
	s := dataplane.EndpointSet{Service: name, Protocol: dataplane.TCP, Affinity: rapid.SampledFrom([]time.Duration{0, 0, 0, time.Hour}).Draw(t, "affinity")}
	n := rapid.SampledFrom([]int{1, 1, 2, 2, 3, 32, 33, 34}).Draw(t, "endpoints")
	first := rapid.IntRange(0, 3).Draw(t, "first")
	heavy := rapid.IntRange(0, 3).Draw(t, "heavy") == 0
	for e := range n {
		addr := netip.AddrFrom4([4]byte{10, 244, 0, byte(10 + first + e)})
		if f == dataplane.IPv6 {
			addr = netip.MustParseAddr(fmt.Sprintf("fd00:10:244::%x", 10+first+e))
		}
		ep := dataplane.Endpoint{Addr: netip.AddrPortFrom(addr, 8080), Weight: 1, Local: (first+e)%2 == 0}
		if heavy && e == 0 {
			ep.Weight = 3
		}
		s.Endpoints = append(s.Endpoints, ep)
	}
	return s
}

// following is a follower with the Services that it was told of.
type following struct {
	backend *Backend
	*follower
	pool
}

// TestFollow proves that after any change of any table the kernel holds what a
// build from nothing wants, and the follower remembers what the kernel holds.
func TestFollow(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	l.Node.Do(func() {
		rapid.Check(t, func(rt *rapid.T) {
			f := follow(rt, t)
			defer f.Close()
			for range rapid.IntRange(1, 6).Draw(rt, "steps") {
				to := anyPool(rt, f.pool)
				p, err := f.PlanChange(t.Context(), f.delta(to))
				if err != nil {
					rt.Fatalf("change: %v", err)
				}
				f.pool = to
				f.sameAsWhole(rt, p)
				if err := p.Apply(t.Context()); err != nil {
					rt.Fatalf("change: %v", err)
				}
				f.check(rt)
			}
		})
	})
}

// follow returns a follower of a namespace that held something else.
func follow(rt *rapid.T, t *testing.T) *following {
	f := &following{backend: New(Config{}), pool: anyPool(rt, pool{})}
	f.follower = f.backend.Follow().(*follower)
	f.whole(rt, t.Context())
	return f
}

// whole makes a whole pass.
func (f *following) whole(t fataler, ctx context.Context) {
	t.Helper()
	p, err := f.Plan(ctx, f.table(all))
	if err == nil {
		err = p.Apply(ctx)
	}
	if err != nil {
		t.Fatalf("whole pass: %v", err)
	}
}

// sameAsWhole requires that a plan of a change is what a pass over all would plan.
func (f *following) sameAsWhole(t fataler, p dataplane.Plan) {
	t.Helper()
	whole, err := f.backend.Plan(context.Background(), f.table(all))
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	text := func(p dataplane.Plan) (out []string) {
		for _, c := range p.Changes() {
			out = append(out, fmt.Sprintf("%s %q", c, c.Lines))
		}
		return slices.Sorted(slices.Values(out))
	}
	if diff := cmp.Diff(text(whole), text(p)); diff != "" {
		t.Fatalf("a pass over all (-), a change (+):\n%s", diff)
	}
}

// check compares kernel, memory and what a build from nothing wants.
func (f *following) check(t fataler) {
	t.Helper()
	table := f.table(all)
	p, err := f.backend.Plan(context.Background(), table)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	for _, c := range p.Changes() {
		t.Fatalf("still to do after a change: %s\n%q", c, c.Lines)
	}
	for _, m := range f.memories {
		if want := wholeBuilder(table, m.family).count; !reflect.DeepEqual(m.count, want) {
			t.Fatalf("%s: remembered %v\nwant %v", m.family, m.count, want)
		}
		have, err := f.socket.read(context.Background(), m.family)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		for name, s := range have.sets {
			for g := range s.rows {
				if kernel, known := s.group(g), m.rows[name][g]; !kernel.same(rows{leads: known, width: s.width}) {
					t.Fatalf("%s: map %s: remembered %q, is %q", m.family, name, known, kernel.leads)
				}
			}
			if len(s.rows) != len(m.rows[name]) {
				t.Fatalf("%s: map %s: %d frontends remembered, there are %d", m.family, name, len(m.rows[name]), len(s.rows))
			}
		}
	}
}

// unreliable is a context that is over at some of the moments when it is asked:
// before each transaction.
type unreliable struct {
	context.Context
	over func() bool
}

var errOver = errors.New("over")

func (u unreliable) Err() error {
	if u.over() {
		return errOver
	}
	return nil
}

// TestStepByStep proves of changes of some Services what TestAnyToAny proves of
// passes: at no moment between two transactions does a frontend not serve that
// serves before and after, or lead to endpoints that it never had.
func TestStepByStep(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		from := anyPool(rt, pool{})
		k := newFake(dataplane.IPv4)
		built := wholeBuilder(from.table(all), dataplane.IPv4)
		first, err := difference(built.layout(), k.read())
		if err == nil {
			err = k.apply(first, func() {})
		}
		if err != nil {
			rt.Fatalf("%v", err)
		}
		m := memory{facts: built.facts, count: built.count, rows: first.rows}
		for range 4 {
			to := anyPool(rt, from)
			s, err := m.plan(from.delta(to))
			if err != nil {
				rt.Fatalf("plan: %v", err)
			}
			between := func() {}
			if after := to.table(all).ForFamily(dataplane.IPv4); len(after.Frontends) > 0 {
				w := watch{from.table(all), after, rapid.SampledFrom(after.Frontends).Draw(rt, "watched").Key}
				between = func() { w.check(rt, k) }
			}
			if err := k.apply(s.delta, between); err != nil {
				rt.Fatalf("apply: %v", err)
			}
			m.remember(s)
			from = to
		}
	})
}

// TestFollowFailures proves that a follower whose writes fail, or whose plans are
// not applied, says that it has forgotten, and that a whole pass makes it good.
func TestFollowFailures(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	failed := 0
	l.Node.Do(func() {
		rapid.Check(t, func(rt *rapid.T) {
			f := follow(rt, t)
			defer f.Close()
			for range rapid.IntRange(1, 6).Draw(rt, "steps") {
				to := anyPool(rt, f.pool)
				p, err := f.PlanChange(t.Context(), f.delta(to))
				if err != nil {
					rt.Fatalf("change: %v", err)
				}
				works := len(p.Changes()) == 0
				if rapid.IntRange(0, 4).Draw(rt, "applied") > 0 {
					works = p.Apply(unreliable{t.Context(), func() bool { return rapid.IntRange(0, 9).Draw(rt, "fails") == 0 }}) == nil
				}
				f.pool = to
				if !works {
					failed++
					if _, err := f.PlanChange(t.Context(), dataplane.Delta{}); !errors.Is(err, dataplane.ErrForgotten) {
						rt.Fatalf("after a failure: %v", err)
					}
					f.whole(rt, t.Context())
				}
				f.check(rt)
			}
		})
	})
	if failed == 0 {
		t.Error("nothing has failed")
	}
}
