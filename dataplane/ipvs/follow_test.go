package ipvs

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

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
)

// world is the Services of a table, each a table by itself.
type world map[int]dataplane.Table

func join(node dataplane.Node, parts ...dataplane.Table) dataplane.Table {
	t := dataplane.Table{Node: node}
	for _, p := range parts {
		t.Frontends, t.Sets = append(t.Frontends, p.Frontends...), append(t.Sets, p.Sets...)
	}
	t.Sort()
	return t
}

func (w world) table(node dataplane.Node) dataplane.Table {
	var parts []dataplane.Table
	for _, p := range w {
		parts = append(parts, p)
	}
	return join(node, parts...)
}

// randomService is one of many with the same number: Services share addresses and
// endpoints.
func randomService(n int, r *rand.Rand) dataplane.Table {
	var t dataplane.Table
	service := fmt.Sprintf("default/s%d", n)
	for i := range r.IntN(3) {
		fe := frontend(fmt.Sprintf([...]string{"10.96.0.%d", "198.51.100.%d"}[i%2], 1+n/2), uint16(80+2*i+n%2))
		switch port := uint16(30000 + 10*n + i); r.IntN(6) {
		case 0:
			fe.Addr, fe.Port, fe.Kind = netip.IPv4Unspecified(), port, dataplane.NodePort
		case 1: // that of another Service, at the very address
			fe.Addr, fe.Port, fe.Kind = netip.MustParseAddr("192.0.2.1"), port+10, dataplane.ExternalIP
		}
		if r.IntN(4) == 0 {
			fe.Allowed = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("198.51.100.7"), r.IntN(33)).Masked()}
		}
		fe.Service = fmt.Sprintf("%s:p%d", service, i)
		set := dataplane.EndpointSet{Name: fe.Service, Service: fe.Service, Protocol: dataplane.TCP}
		for e := range 1 + r.IntN(4) {
			set.Endpoints = append(set.Endpoints, dataplane.Endpoint{Weight: uint16(1 + r.IntN(2)), Local: r.IntN(2) == 0,
				Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(1 + 2*e + r.IntN(2))}), 8080)})
		}
		second := set
		second.Name += "@local"
		second.Endpoints = set.Endpoints[:1]
		verdict := dataplane.Verdict(max(0, r.IntN(5)-2))
		for s := range fe.Routes {
			if r.IntN(4) == 0 {
				verdict = dataplane.Verdict(max(0, r.IntN(5)-2))
			}
			fe.Routes[s] = dataplane.Route{Verdict: verdict, Masquerade: r.IntN(2) == 0}
			if verdict == dataplane.Forward {
				fe.Routes[s].Set = []string{set.Name, second.Name}[r.IntN(2)]
			}
		}
		t.Frontends = append(t.Frontends, fe)
		for _, s := range []dataplane.EndpointSet{set, second} {
			if slices.ContainsFunc(fe.Routes[:], func(r dataplane.Route) bool { return r.Set == s.Name }) {
				t.Sets = append(t.Sets, s)
			}
		}
	}
	return t
}

// Changes of a few Services at a time bring a kernel to where a whole
// pass would, and to nothing else; the memory is what the kernel holds.
func TestFollow(t *testing.T) {
	node := table().Node
	node.Addrs = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		w := world{}
		for i := range 8 {
			w[i] = randomService(i, r)
		}
		m := &model{observed: observed{family: dataplane.IPv4, servers: map[serverID]*virtualServer{}, routes: map[netip.Addr]heldRoute{},
			inbound: map[netip.Addr]heldRoute{}}}
		f := &follower{backend: New(Config{DrainLimit: -1})}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			if f.memory == nil {
				m.whole(t, f, w.table(node))
			}
			before, after := dataplane.Table{Node: node}, dataplane.Table{Node: node}
			for _, i := range r.Perm(len(w))[:1+r.IntN(3)] {
				before = join(node, before, w[i])
				w[i] = randomService(i, r)
				after = join(node, after, w[i])
			}
			m.change(t, f, dataplane.Delta{Before: before, After: after}, w.table(node))
		}
	})
}

// whole makes a whole pass that is remembered.
func (m *model) whole(t *rapid.T, f *follower, table dataplane.Table) {
	want := newTarget(table, dataplane.IPv4, "rr")
	s := &side{familyState: familyState{family: dataplane.IPv4}, table: want, want: want, have: m.clone()}
	compare([]*side{s}, nil)
	if err := m.pass(want); err != nil {
		t.Fatal(err)
	}
	f.node, f.memory = table.Node, remember([]*side{s}, nil)
	contested := func(fe dataplane.Frontend) bool {
		nodePort := fe.Key
		nodePort.Addr = netip.IPv4Unspecified()
		_, other := table.Frontend(nodePort)
		return fe.Addr == table.Node.Addrs[0] && other
	}
	if f.memory == nil && !slices.ContainsFunc(table.Frontends, contested) {
		t.Fatal("a whole pass is not remembered")
	}
}

// change makes a change out of memory, or forgets.
func (m *model) change(t *rapid.T, f *follower, d dataplane.Delta, table dataplane.Table) {
	p, err := f.PlanChange(context.Background(), d)
	if errors.Is(err, dataplane.ErrForgotten) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := p.(*followed); ok {
		for _, part := range p.Plans {
			for s := range part.(*phase).steps.all() {
				if err := m.take(s); err != nil {
					t.Fatalf("%s: %v", s.change(), err)
				}
			}
		}
		p.remember(nil)
	}
	want := newTarget(table, dataplane.IPv4, "rr")
	for s := range append(before(want, m.observed), after(want, m.observed)...).all() {
		t.Errorf("left to do: %s", s.change())
	}
	if f.memory == nil {
		t.Fatal("a change is not remembered")
	}
	for id, v := range f.memory[0].servers {
		if held := f.memory[0].have.servers[id]; held != nil && held != v && v.is(*held) {
			t.Errorf("%s is as it is wanted, and is in memory twice", v.object())
		}
	}
	if diff := cmp.Diff(m.text(), (&model{observed: f.memory[0].have}).text()); diff != "" {
		t.Errorf("kernel and memory (-kernel +memory):\n%s", diff)
	}
}

// clone is a copy as reading gives it.
func (m *model) clone() observed {
	o := m.observed
	o.servers, o.routes, o.inbound, o.policies = maps.Clone(o.servers), maps.Clone(o.routes), maps.Clone(o.inbound), slices.Clone(o.policies)
	for k, held := range o.sets {
		if held != nil {
			o.sets[k] = &heldSet{held.typeName, held.capacity, maps.Clone(held.entries)}
		}
	}
	return o
}

// text tells what is held, a line for each object.
func (m *model) text() string {
	var lines []string
	for k, held := range m.sets {
		for e := range m.entries(setKind(k)) {
			lines = append(lines, fmt.Sprintf("%s of %d: %s", setID{setKind(k), m.family}, held.capacity, e))
		}
	}
	for a, r := range m.routes {
		lines = append(lines, fmt.Sprintf("%s %+v", a, r))
	}
	for a, r := range m.inbound {
		lines = append(lines, fmt.Sprintf("in %s %+v", a, r))
	}
	for _, p := range m.policies {
		lines = append(lines, p.line())
	}
	for _, v := range m.servers {
		lines = append(lines, v.line("A"))
		for _, r := range v.real {
			lines = append(lines, r.line("a", *v))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
