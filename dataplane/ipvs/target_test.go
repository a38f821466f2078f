package ipvs

import (
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
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// kept, masqueraded, left out: what the tests with packets do not reach.
func TestTarget(t *testing.T) {
	web := frontend("10.96.0.1", 80)
	web.Routes[dataplane.FromOutside].Masquerade = false
	all := frontend("10.96.0.2", 80)
	all.Routes[dataplane.FromPod].Masquerade = true
	got := newTarget(table(web, all), dataplane.IPv4, "mh")
	for k, want := range map[setKind][]string{
		services: {"10.96.0.1,tcp:80", "10.96.0.2,tcp:80"}, addresses: {"10.96.0.1", "10.96.0.2"},
		hairpin: {"10.244.0.5,tcp:8080,10.244.0.5"}, kept: {"10.96.0.1,tcp:80"}, masqueraded: {"10.96.0.2,tcp:80"}, dropped: nil,
	} {
		if diff := cmp.Diff(want, names(got.sets[k])); diff != "" {
			t.Errorf("set %s (-want +got):\n%s", setID{k, dataplane.IPv4}, diff)
		}
	}
	if want := "-A -t 10.96.0.1:80 -s mh -b mh-fallback,mh-port"; got.servers[0].line("A") != want {
		t.Errorf("virtual server %q, want %q", got.servers[0].line("A"), want)
	}
}

// Names of Services are data: however long or strange they are, no name in the
// kernel depends on them.
func TestNamesDoNotReachTheKernel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fe := frontend("10.96.0.1", 80)
		plain := newTarget(table(fe), dataplane.IPv4, "rr")
		fe.Service = rapid.StringN(200, 300, -1).Draw(t, "service")
		strange := newTarget(table(fe), dataplane.IPv4, "rr")
		if diff := cmp.Diff(plain.rules, strange.rules); diff != "" {
			t.Fatal(diff)
		}
		if plain.servers[0].line("A") != strange.servers[0].line("A") || !slices.Equal(names(plain.sets[services]), names(strange.sets[services])) {
			t.Fatal("the name shows")
		}
	})
	for k := range setKinds {
		if id := (setID{k, dataplane.IPv6}); len(id.spare()) > 31 {
			t.Errorf("set name %s is longer than the kernel takes", id.spare())
		}
	}
	for _, j := range fullTarget(dataplane.IPv6).ruleset().Jumps {
		if !strings.Contains(j.Rule, `--comment "toyproxy: `) {
			t.Errorf("jump %q is not known as ours", j.Rule)
		}
	}
	for _, c := range fullTarget(dataplane.IPv6).ruleset().Chains {
		if len(c.Name) > xtables.MaxName || !xtables.Owned(c.Name) {
			t.Errorf("chain name %s", c.Name)
		}
	}
}

func TestCapacityFollowsNeed(t *testing.T) {
	for need, want := range map[int]uint32{0: 65536, 65536: 65536, 65537: 131072, 300 * 300: 131072, 1_000_000: 1 << 20} {
		if got := capacity(need); got != want {
			t.Errorf("capacity for %d entries: %d, want %d", need, got, want)
		}
	}
}

func yieldTarget() target {
	return newTarget(table(frontend("198.51.100.7", 80), frontend("198.51.100.7", 81), frontend("10.96.0.1", 80)), dataplane.IPv4, "rr")
}

// A virtual server of somebody else is left alone, and in a range of Services the
// address on which it stands.
func TestYield(t *testing.T) {
	want := yieldTarget()
	have := observed{family: dataplane.IPv4, servers: map[serverID]*virtualServer{}}
	for _, a := range []string{"198.51.100.7", "10.96.0.1"} {
		v := virtualServer{serverID: serverID{Key: dataplane.Key{Addr: netip.MustParseAddr(a), Protocol: dataplane.TCP, Port: 80}}}
		have.servers[v.serverID] = &v
	}
	want = want.settle(have)
	if n := names(want.sets[addresses]); len(n) != 0 || len(want.servers) != 1 || len(want.leftOut) != 2 {
		t.Errorf("kept %v, left out %v", n, want.leftOut)
	}
	for _, v := range yieldTarget().servers {
		v.real = slices.Clone(v.real)
		have.servers[v.serverID] = &v
	}
	if want = yieldTarget().settle(have); len(want.leftOut) != 0 {
		t.Errorf("what is just as it is wanted is ours: %v", want.leftOut)
	}
	for _, v := range have.servers {
		v.real = nil
	}
	have.routes = map[netip.Addr]heldRoute{netip.MustParseAddr("198.51.100.7"): {}}
	want = yieldTarget().settle(have)
	if len(want.leftOut) != 1 {
		t.Errorf("an address with a route of ours is ours: %v", want.leftOut)
	}
}

func TestRelease(t *testing.T) {
	for _, c := range []struct {
		kernel release
		want   string
	}{{release{4, 19}, "0"}, {release{5, 8}, "0"}, {release{5, 9}, "1"}, {release{6, 1}, "1"}} {
		for _, s := range settings(c.kernel) {
			if s.Key == "net.ipv4.vs.conn_reuse_mode" && s.Want != c.want {
				t.Errorf("kernel %s: mode %s, want %s", c.kernel, s.Want, c.want)
			}
		}
	}
}

// model is a kernel that obeys steps, and complains of a bad order.
type model struct {
	observed
	// named are the sets that the rules in force name.
	named map[string]bool
	// wanted: the pass is one towards a table that is not empty.
	wanted bool
}

// take obeys one step.
func (m *model) take(s step) error {
	switch a := s.action.(type) {
	case makeSet:
		m.sets[a.id.kind] = &heldSet{typeName: a.id.kind.Type(), capacity: a.capacity, entries: map[entry]struct{}{}}
	case destroySet:
		if m.named[a.name] {
			return fmt.Errorf("a rule still names %s", a.name)
		}
		for k := range m.sets {
			if (setID{setKind(k), m.family}).String() == a.name {
				m.sets[k] = nil
			}
		}
	case setEntry:
		maps.DeleteFunc(m.sets[a.id.kind].entries, func(e entry, _ struct{}) bool { return e.place() == a.entry.place() })
		if a.add {
			m.sets[a.id.kind].entries[a.entry] = struct{}{}
		}
	case raiseRoute:
		m.table(a.table)[a.addr] = heldRoute{source: m.source, loopback: true}
	case dropRoute:
		delete(m.table(a.table), a.addr)
	case changePolicy:
		m.policies = slices.DeleteFunc(m.policies, func(p policy) bool { return p == a.policy })
		if a.add {
			m.policies = append(m.policies, a.policy)
		}
	default:
		m.takeServer(s.action)
	}
	return m.sound()
}

func (m *model) table(n uint32) map[netip.Addr]heldRoute {
	if n == inboundTable {
		return m.inbound
	}
	return m.routes
}

func (m *model) takeServer(a action) {
	switch a := a.(type) {
	case putServer:
		v := *a.server
		v.real = nil
		if held := m.servers[v.serverID]; held != nil {
			v.real = held.real
		}
		m.servers[v.serverID] = &v
	case dropServer:
		delete(m.servers, a.server.serverID)
	case putReal:
		v := *m.servers[a.server.serverID]
		v.real = append(slices.DeleteFunc(slices.Clone(v.real), func(r realServer) bool { return r.addr == a.real.addr }), a.real)
		m.servers[v.serverID] = &v
	case dropReal:
		v := *m.servers[a.server.serverID]
		v.real = slices.DeleteFunc(slices.Clone(v.real), func(r realServer) bool { return r.addr == a.real.addr })
		m.servers[v.serverID] = &v
	}
}

// sound says what no packet may ever meet.
func (m *model) sound() error {
	for e := range m.entries(services) {
		v, ok := m.servers[serverID{Key: e.key()}]
		if _, reachable := m.routes[e.addr]; reachable && (!ok || len(v.real) == 0) {
			return fmt.Errorf("%s is open and has no real server: a daemon of the node answers", e)
		}
	}
	if err := m.soundMarks(); err != nil {
		return err
	}
	for a := range m.routes {
		if _, known := m.entries(addresses)[entry{addr: a}]; !known || len(m.named) == 0 {
			return fmt.Errorf("%s is local and not guarded", a)
		}
	}
	for k := range m.servers {
		if !m.owns(k) {
			return fmt.Errorf("%s would be taken for somebody else's after a kill", k)
		}
	}
	return nil
}

// soundMarks says the same of what is led in by marks.
func (m *model) soundMarks() error {
	if len(m.named) == 0 {
		return nil // no rule looks into the sets
	}
	for _, k := range []setKind{markPod, markNode, markOutside} {
		for e := range m.entries(k) {
			v, ok := m.servers[serverID{dataplane.Key{Addr: unspecified(m.family)}, e.mark}]
			if m.wanted && !ok || ok && len(v.real) == 0 {
				return fmt.Errorf("%s leads to no real server", e)
			}
		}
	}
	for e := range m.entries(brought) {
		_, served := m.entries(services)[e]
		_, known := m.entries(ports)[e]
		// Without the way in, at the end of everything, they go where they always did.
		if _, routed := m.inbound[e.addr]; !known || m.wanted && (!routed && served || len(m.policies) != 1) {
			return fmt.Errorf("%s is marked and has no way in, or no guard", e)
		}
	}
	return nil
}

// pass makes the model match a target, and checks that it does.
func (m *model) pass(want target) error {
	m.wanted = want.wanted()
	first, last := before(want, m.observed), after(want, m.observed)
	for s := range first.all() {
		if err := m.take(s); err != nil {
			return fmt.Errorf("%s: %w", s.change(), err)
		}
	}
	m.named = map[string]bool{}
	for _, c := range want.rules.Chains {
		for _, r := range c.Rules {
			for _, w := range strings.Fields(r) {
				m.named[w] = true
			}
		}
	}
	for s := range last.all() {
		if err := m.take(s); err != nil {
			return fmt.Errorf("%s: %w", s.change(), err)
		}
	}
	if left := append(before(want, m.observed), after(want, m.observed)...); len(left) != 0 {
		return fmt.Errorf("left to do: %v", left[0].at(0).change())
	}
	return nil
}

// From any table to any other: no step, taken alone, leaves a moment that is
// worse than before or after, and nothing is left to do at the end.
func TestEveryMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{observed: observed{family: dataplane.IPv4, servers: map[serverID]*virtualServer{}, routes: map[netip.Addr]heldRoute{},
			inbound: map[netip.Addr]heldRoute{}}}
		for range rapid.IntRange(1, 6).Draw(t, "passes") {
			seed := rapid.Uint64().Draw(t, "table")
			if err := m.pass(newTarget(randomTable(seed), dataplane.IPv4, "rr")); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.pass(target{family: dataplane.IPv4}); err != nil {
			t.Fatal(err)
		}
	})
}

func randomTable(seed uint64) dataplane.Table {
	r := rand.New(rand.NewPCG(seed, 1))
	var fes []dataplane.Frontend
	for i := range 12 {
		fe := frontend(fmt.Sprintf([...]string{"10.96.0.%d", "198.51.100.%d"}[i%2], 1+i/3), uint16(80+i%3))
		if i == 0 {
			fe.Addr, fe.Kind = netip.IPv4Unspecified(), dataplane.NodePort
		}
		if r.IntN(3) == 0 {
			fe.Allowed = []netip.Prefix{netip.PrefixFrom(fe.Addr, r.IntN(33)).Masked()}
		}
		same := r.IntN(2)
		for s := range fe.Routes {
			fe.Routes[s] = dataplane.Route{Set: fmt.Sprint(r.IntN(4)), Masquerade: r.IntN(2) == 0}
			if v := dataplane.Verdict(r.IntN(3)); v != dataplane.Forward {
				fe.Routes[s] = dataplane.Route{Verdict: v}
			}
			fe.Routes[s] = fe.Routes[s*same]
		}
		if r.IntN(3) > 0 {
			fes = append(fes, fe)
		}
	}
	t := table(fes...)
	t.Sets, t.Node.Addrs = nil, []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	for name := range 4 {
		s := dataplane.EndpointSet{Name: fmt.Sprint(name), Protocol: dataplane.TCP}
		for i := range 1 + r.IntN(4) {
			s.Endpoints = append(s.Endpoints, dataplane.Endpoint{Weight: uint16(1 + r.IntN(2)), Local: r.IntN(2) == 0,
				Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(10*name + i)}), 8080)})
		}
		t.Sets = append(t.Sets, s)
	}
	return t
}

// frontend forwards to a set named "0".
func frontend(addr string, port uint16) dataplane.Frontend {
	fe := dataplane.Frontend{Key: dataplane.Key{Addr: netip.MustParseAddr(addr), Protocol: dataplane.TCP, Port: port}, Service: "default/web"}
	for s := range fe.Routes {
		fe.Routes[s] = dataplane.Route{Set: "0", Masquerade: dataplane.Source(s) != dataplane.FromPod}
	}
	return fe
}

func table(fes ...dataplane.Frontend) dataplane.Table {
	t := dataplane.Table{Frontends: fes, Node: dataplane.Node{
		PodRanges:     []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
	}}
	t.Sets = []dataplane.EndpointSet{{Name: "0", Service: "default/web", Protocol: dataplane.TCP, Endpoints: []dataplane.Endpoint{
		{Addr: netip.MustParseAddrPort("10.244.0.5:8080"), Weight: 1, Local: true},
		{Addr: netip.MustParseAddrPort("10.244.1.5:8080"), Weight: 1},
	}}}
	t.Sort()
	return t
}

func names(m members) []string {
	var out []string
	for e := range m {
		out = append(out, e.String())
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
