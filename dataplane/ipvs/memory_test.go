package ipvs

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
)

// What every Service asks for, taken together, is what the table asks for: each entry
// as often as there are Services that do. Where it is not, the table says so.
func TestAskedFor(t *testing.T) {
	node := table().Node
	node.Addrs = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		w := world{}
		for i := range 8 {
			w[i] = randomService(i, r)
		}
		whole := newTarget(w.table(node), dataplane.IPv4, "rr")
		var counts [setKinds]map[entry]int
		servers := map[serverID]virtualServer{}
		for k := range counts {
			counts[k] = map[entry]int{}
		}
		for _, part := range byService(w.table(node)) {
			p := newPart(part, dataplane.IPv4, "rr")
			for k, set := range p.sets {
				for e := range set {
					counts[k][e]++
				}
			}
			for _, v := range p.servers {
				servers[v.serverID] = v
			}
		}
		if whole.entangled {
			return
		}
		m := remember([]*side{{familyState: familyState{family: dataplane.IPv4}, table: whole, want: whole, have: holding(whole)}}, nil)[0]
		for k := range counts {
			if got := m.asked[k]; got != len(counts[k]) {
				t.Fatalf("set %s: %d entries are asked for, want %d", setID{setKind(k), m.family}, got, len(counts[k]))
			}
			for e, n := range counts[k] {
				if got := m.count(setKind(k), e); got != n {
					t.Fatalf("set %s: %d Services ask for %s, want %d", setID{setKind(k), m.family}, got, e, n)
				}
			}
		}
		same := func(a *virtualServer, b virtualServer) bool {
			return a.difference(b) == "" && slices.Equal(a.real, b.real)
		}
		if !maps.EqualFunc(m.servers, servers, same) {
			t.Fatalf("virtual servers %v, want %v", m.servers, servers)
		}
	})
}

// A NodePort that another Service has for itself on some address, and endpoints of
// another Service, are what no Service asks for by itself.
func TestEntangled(t *testing.T) {
	nodePort, own, alien := frontend("0.0.0.0", 30080), frontend("192.0.2.1", 30080), frontend("10.96.0.1", 80)
	nodePort.Kind, nodePort.Service = dataplane.NodePort, "default/other"
	own.Kind, alien.Service = dataplane.ExternalIP, "default/other"
	for name, c := range map[string]struct {
		table dataplane.Table
		want  bool
	}{
		"one Service":                  {table(frontend("10.96.0.1", 80), frontend("10.96.0.1", 81)), false},
		"another's node port":          {table(own, nodePort), true},
		"endpoints of another Service": {table(alien), true},
	} {
		c.table.Node.Addrs = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		if got := newTarget(c.table, dataplane.IPv4, "rr").entangled; got != c.want {
			t.Errorf("%s: entangled %t, want %t", name, got, c.want)
		}
	}
}

// heap is what is in use after all garbage has gone.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// The memory of a process with 10,000 Services of ten endpoints is that of their
// endpoints: bounds for what one of 100,000 takes, about a quarter above what it is.
func TestBytesPerEndpoint(t *testing.T) {
	const services, endpoints = 10_000, 100_000
	tab := many(services)
	check := func(name string, bound, before int) {
		t.Helper()
		got := float64(heap()-before) / endpoints
		t.Logf("%s: %.0f bytes an endpoint", name, got)
		if got > float64(bound) {
			t.Errorf("%s takes %.0f bytes for each endpoint, want %d at most", name, got, bound)
		}
	}
	before := heap()
	memory := func() []*memory {
		want := newTarget(tab, dataplane.IPv4, "rr")
		check("what is wanted", 125, before)
		atFirst := heap()
		s := &side{familyState: familyState{family: dataplane.IPv4}, table: want, want: want,
			have: observed{family: dataplane.IPv4, servers: map[serverID]*virtualServer{}, routes: map[netip.Addr]heldRoute{}}}
		first, last := compare([]*side{s}, nil)
		check("the steps from nothing", 40, atFirst)
		if n := first.steps.count() + last.steps.count(); n < endpoints+services {
			t.Errorf("%d steps", n)
		}
		return remember([]*side{s}, nil)
	}()
	check("what is remembered", 150, before)
	if memory == nil {
		t.Error("nothing is remembered")
	}
	runtime.KeepAlive(memory)
	runtime.KeepAlive(tab)
}
