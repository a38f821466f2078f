package conntrack

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

// dice makes random tables and flows out of few addresses and ports, so that
// they meet often.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 84))} }

func (d dice) addr(bases ...string) netip.Addr {
	if d.IntN(2) == 0 {
		return addr(fmt.Sprintf(bases[d.IntN(len(bases))], 1+d.IntN(4)))
	}
	six := map[string]string{"10.96.0.%d": "fd00:10:96::%d", "10.244.0.%d": "fd00:10:244::%d", "203.0.113.%d": "fd00:203:113::%d", "192.0.2.%d": "fd00:192:2::%d"}
	return addr(fmt.Sprintf(six[bases[d.IntN(len(bases))]], 1+d.IntN(4)))
}

func (d dice) port() uint16 { return uint16(50 + d.IntN(3)) }

func (d dice) protocol() dataplane.Protocol {
	return []dataplane.Protocol{dataplane.UDP, dataplane.UDP, dataplane.TCP, dataplane.SCTP}[d.IntN(4)]
}

func (d dice) key() dataplane.Key {
	k := dataplane.Key{Addr: d.addr("10.96.0.%d", "203.0.113.%d", "192.0.2.%d"), Protocol: d.protocol(), Port: d.port()}
	if d.IntN(4) == 0 {
		k.Addr = unspecified(dataplane.FamilyOf(k.Addr))
	}
	return k
}

func (d dice) wanted() Wanted {
	b := newTable()
	for f, form := range []string{"10.244.0.%d:%d", "[fd00:10:244::%d]:%d"} {
		for n := range 3 {
			var eps []string
			for range 1 + d.IntN(6) {
				eps = append(eps, fmt.Sprintf(form, 1+d.IntN(4), d.port()))
			}
			b.set(fmt.Sprintf("%d-%d", f, n), dataplane.UDP, eps...)
		}
	}
	for i := range b.Sets {
		s := &b.Sets[i]
		slices.SortFunc(s.Endpoints, func(a, b dataplane.Endpoint) int { return a.Addr.Compare(b.Addr) })
		s.Endpoints = slices.Compact(s.Endpoints)
	}
	seen := map[dataplane.Key]bool{}
	for range d.IntN(12) {
		if fe := d.frontend(); !seen[fe.Key] {
			seen[fe.Key] = true
			b.Frontends = append(b.Frontends, fe)
		}
	}
	b.Sort()
	w := Wanted{Table: b.Table, Virtual: d.IntN(4) == 0, Local: []netip.Addr{addr("192.0.2.1"), addr("fd00:192:2::1")}}
	for range d.IntN(4) {
		w.Former = append(w.Former, d.key())
	}
	return w
}

func (d dice) frontend() dataplane.Frontend {
	fe := dataplane.Frontend{Key: d.key()}
	for c := range fe.Routes {
		fe.Routes[c].Verdict = dataplane.Verdict(d.IntN(3))
		if fe.Routes[c].Verdict == dataplane.Forward {
			fe.Routes[c].Set = fmt.Sprintf("%d-%d", fe.Addr.BitLen()/128, d.IntN(3))
		}
	}
	if d.IntN(4) == 0 {
		a := d.addr("192.0.2.%d", "10.244.0.%d")
		fe.Allowed = []netip.Prefix{netip.PrefixFrom(a, a.BitLen()-2).Masked()}
	}
	return fe
}

func (d dice) flow() Flow {
	to := netip.AddrPortFrom(d.addr("10.96.0.%d", "203.0.113.%d", "192.0.2.%d", "10.244.0.%d"), d.port())
	from := netip.AddrPortFrom(d.addr("192.0.2.%d", "10.244.0.%d"), 4000)
	for from.Addr().BitLen() != to.Addr().BitLen() {
		from = netip.AddrPortFrom(d.addr("192.0.2.%d", "10.244.0.%d"), 4000)
	}
	end := to
	for d.IntN(3) > 0 || end.Addr().BitLen() != to.Addr().BitLen() {
		end = netip.AddrPortFrom(d.addr("10.244.0.%d"), d.port())
	}
	f := Flow{Protocol: d.protocol(), Original: Tuple{from, to}, Reply: Tuple{end, from}, ID: d.Uint32()}
	f.Rewritten = f.Translated() && d.IntN(4) > 0
	f.Opening = f.Protocol != dataplane.UDP && d.IntN(2) == 0
	return f
}

// naive decides in the plainest way, by looking at everything: would a new flow
// get another fate?
func naive(w Wanted, f Flow) bool {
	lost := !w.Virtual && !f.Rewritten && f.Reply.Source != f.Original.Destination
	if f.Protocol != dataplane.UDP && !f.Opening && !lost {
		return false
	}
	fe, found := naiveFrontend(w, f)
	if !found {
		for _, r := range w.Table.Node.ServiceRanges {
			if r.Contains(f.Original.Destination.Addr()) {
				return true
			}
		}
		for _, k := range w.Former {
			if f.Translated() && k.Protocol == f.Protocol && netip.AddrPortFrom(k.Addr, k.Port) == f.Original.Destination {
				return true
			}
		}
		return false
	}
	route := fe.Routes[naiveClass(w, f.Original.Source.Addr())]
	allowed := fe.Allowed == nil
	for _, r := range fe.Allowed {
		allowed = allowed || r.Contains(f.Original.Source.Addr())
	}
	if !allowed || route.Verdict != dataplane.Forward {
		return true
	}
	for _, s := range w.Table.Sets {
		for _, e := range s.Endpoints {
			if s.Name == route.Set && e.Addr == f.Endpoint() {
				return f.Translated() && !f.Rewritten && !w.Virtual
			}
		}
	}
	return true
}

// naiveFrontend prefers a frontend with the very address to a NodePort.
func naiveFrontend(w Wanted, f Flow) (found dataplane.Frontend, ok bool) {
	to := f.Original.Destination
	for _, fe := range w.Table.Frontends {
		if fe.Protocol != f.Protocol || fe.Port != to.Port() {
			continue
		}
		if fe.Addr == to.Addr() {
			return fe, true
		}
		if fe.Addr == unspecified(dataplane.FamilyOf(to.Addr())) && slices.Contains(w.Table.Node.Addrs, to.Addr()) {
			found, ok = fe, true
		}
	}
	return found, ok
}

func naiveClass(w Wanted, a netip.Addr) dataplane.Source {
	for _, r := range w.Table.Node.PodRanges {
		if r.Contains(a) {
			return dataplane.FromPod
		}
	}
	if slices.Contains(w.Local, a) {
		return dataplane.FromNode
	}
	return dataplane.FromOutside
}

// compare checks Stale against naive on one random table and many flows, and
// returns how many flows were stale.
func compare(t *testing.T, seed uint64) int {
	d := newDice(seed)
	w := d.wanted()
	flows := make([]Flow, 200)
	for i := range flows {
		flows[i] = d.flow()
	}
	var want []Flow
	for _, f := range flows {
		if naive(w, f) {
			want = append(want, f)
		}
	}
	var got []Flow
	for _, f := range Stale(w, flows) {
		got = append(got, f.Flow)
		if f.Reason == "" {
			t.Errorf("seed %d: %s: no reason", seed, f.Flow)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d: stale %v\nwant %v", seed, got, want)
	}
	return len(got)
}

func TestStaleAsNaive(t *testing.T) {
	stale := 0
	for seed := range uint64(500) {
		stale += compare(t, seed)
	}
	if stale < 10_000 || stale > 90_000 {
		t.Errorf("%d of 100000 flows stale: the test decides nothing", stale)
	}
}

func FuzzStale(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { compare(t, seed) })
}

// TestRightFlowsStay proves that nothing a rule of the table makes is ever stale:
// a restart, and a second pass, remove nothing.
func TestRightFlowsStay(t *testing.T) {
	for seed := range uint64(300) {
		d := newDice(seed)
		w := d.wanted()
		var flows []Flow
		for range 200 {
			if f, ok := renew(w, d.flow(), d); ok {
				flows = append(flows, f)
			}
		}
		for _, f := range Stale(w, flows) {
			t.Errorf("seed %d: %s: stale, %s", seed, f.Flow, f.Reason)
		}
	}
}

// renew makes of a flow what the table would make of it now; ok is false if there
// would be none.
func renew(w Wanted, f Flow, d dice) (Flow, bool) {
	f.Reply.Source = f.Original.Destination
	fe, ok := naiveFrontend(w, f)
	if !ok {
		f.Rewritten = false
		return f, !slices.ContainsFunc(w.Table.Node.ServiceRanges, func(r netip.Prefix) bool { return r.Contains(f.Original.Destination.Addr()) })
	}
	route := fe.Routes[naiveClass(w, f.Original.Source.Addr())]
	allowed := fe.Allowed == nil || fe.Allowed[0].Contains(f.Original.Source.Addr())
	if route.Verdict != dataplane.Forward || !allowed {
		return f, false
	}
	s, _ := w.Table.Set(route.Set)
	f.Reply.Source = s.Endpoints[d.IntN(len(s.Endpoints))].Addr
	f.Rewritten = !w.Virtual
	return f, true
}

// BenchmarkStale shows what a pass costs beside the dump: 100 000 flows against
// 10 000 frontends.
func BenchmarkStale(b *testing.B) {
	table := newTable()
	for i := range 10_000 {
		at := fmt.Sprintf("10.%d.%d.%d", 96+i/65536, i/256%256, i%256)
		name := fmt.Sprintf("s%d", i)
		table.Sets = append(table.Sets, dataplane.EndpointSet{Name: name, Endpoints: []dataplane.Endpoint{{Addr: addrPort("10.244.0.5:53")}, {Addr: addrPort("10.244.0.6:53")}}})
		fe := dataplane.Frontend{Key: dataplane.Key{Addr: addr(at), Protocol: dataplane.UDP, Port: 53}}
		for c := range fe.Routes {
			fe.Routes[c] = dataplane.Route{Set: name}
		}
		table.Frontends = append(table.Frontends, fe)
	}
	table.Sort()
	flows := make([]Flow, 100_000)
	for i := range flows {
		to := netip.AddrPortFrom(table.Frontends[i%10_000].Addr, 53)
		flows[i] = Flow{Protocol: dataplane.UDP, Original: Tuple{addrPort("10.244.0.2:4000"), to}, Reply: Tuple{addrPort("10.244.0.6:53"), addrPort("10.244.0.2:4000")}, Rewritten: true}
	}
	for b.Loop() {
		if n := len(Stale(Wanted{Table: table.Table}, flows)); n != 0 {
			b.Fatal(n)
		}
	}
}
