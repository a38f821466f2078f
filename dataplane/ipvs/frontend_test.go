package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
)

// openDoors is a table of one Service with endpoints here and elsewhere, whose clients
// from outside have those here.
func openDoors(edit func(*dataplane.Table)) dataplane.Table {
	t := table(frontend("10.96.0.1", 80), frontend("198.51.100.7", 80), frontend("0.0.0.0", 30080))
	t.Node.Addrs = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	local := t.Sets[0]
	local.Name, local.Endpoints = "0@local", t.Sets[0].Endpoints[:1]
	t.Sets = append(t.Sets, local)
	for i := range t.Frontends {
		fe := &t.Frontends[i]
		switch fe.Port {
		case 30080:
			fe.Kind = dataplane.NodePort
		}
		if fe.Addr != netip.MustParseAddr("10.96.0.1") {
			fe.Routes[dataplane.FromOutside] = dataplane.Route{Set: "0@local"}
		}
	}
	if edit != nil {
		edit(&t)
	}
	t.Sort()
	return t
}

// members of the sets that are not empty, without those that every frontend is in.
func differing(t target) map[string][]string {
	out := map[string][]string{}
	for k, m := range t.sets {
		switch setKind(k) {
		case services, addresses, hairpin, ports, brought, arrivals:
			continue
		}
		if len(m) > 0 {
			out[setKind(k).traits().name] = names(m)
		}
	}
	return out
}

func serverLines(t target) (out []string) {
	for _, v := range t.servers {
		line := v.line("A") + " →"
		for _, r := range v.real {
			line += " " + r.addr.addrPort().Addr().String()
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// Where clients from outside have other endpoints, a mark leads them there; all
// doors share its virtual server.
func TestEndpointsBySource(t *testing.T) {
	got := newTarget(openDoors(nil), dataplane.IPv4, "rr")
	var mark uint32
	for e := range got.sets[marks] {
		mark = e.mark
	}
	want := []string{
		fmt.Sprintf("-A -f %d -s rr → 10.244.0.5", mark),
		"-A -t 10.96.0.1:80 -s rr → 10.244.0.5 10.244.1.5", "-A -t 192.0.2.1:30080 -s rr → 10.244.0.5 10.244.1.5",
		"-A -t 192.0.2.2:30080 -s rr → 10.244.0.5 10.244.1.5", "-A -t 198.51.100.7:80 -s rr → 10.244.0.5 10.244.1.5",
	}
	if diff := cmp.Diff(want, serverLines(got)); diff != "" {
		t.Errorf("virtual servers (-want +got):\n%s", diff)
	}
	doors := []string{"192.0.2.1,tcp:30080", "192.0.2.2,tcp:30080", "198.51.100.7,tcp:80"}
	var marked []string
	for _, d := range doors {
		marked = append(marked, fmt.Sprintf("%s skbmark %#x", d, mark))
	}
	if diff := cmp.Diff(map[string][]string{"KEEP": doors, "MARK": {fmt.Sprintf("0.0.0.0,%#x", mark)}, "MARK-OUT": marked}, differing(got)); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"198.51.100.7,tcp:80"}, names(got.sets[brought])); diff != "" {
		t.Errorf("brought in (-want +got):\n%s", diff)
	}
	if len(got.leftOut) != 0 || len(got.remarks) != 1 || !strings.HasPrefix(got.remarks[0], "1 node ports are not served on loopback") {
		t.Errorf("left out: %v, remarks: %v", got.leftOut, got.remarks)
	}
	if diff := cmp.Diff(got.rules, newTarget(twoServices(), dataplane.IPv4, "rr").rules); diff != "" {
		t.Errorf("rules of one Service and of two (-one +two):\n%s", diff)
	}
}

// twoServices has a second Service like that of doors.
func twoServices() dataplane.Table {
	return openDoors(func(t *dataplane.Table) {
		more := t.Frontends[0]
		for _, fe := range slices.Clone(t.Frontends) {
			if fe.Addr == netip.MustParseAddr("198.51.100.7") {
				more = fe
			}
		}
		more.Port, more.Service = 81, "default/other"
		t.Frontends = append(t.Frontends, more)
	})
}

// What one class of sources may not is noted for that class; frontends that nobody
// may use need no virtual server.
func TestVerdictsBySource(t *testing.T) {
	const door = "198.51.100.7,tcp:80"
	forward, drop, refuse := dataplane.Route{Set: "0"}, dataplane.Route{Verdict: dataplane.Drop}, dataplane.Route{Verdict: dataplane.Refuse}
	for _, c := range []struct {
		routes [dataplane.Sources]dataplane.Route
		want   string
		served bool
	}{
		{[...]dataplane.Route{forward, forward, drop}, "DROP-OUT KEEP-NODE", true},
		{[...]dataplane.Route{drop, refuse, forward}, "DROP-POD KEEP REFUSE-NODE", true},
		{[...]dataplane.Route{refuse, drop, forward}, "DROP-NODE KEEP REFUSE-POD", true},
		{[...]dataplane.Route{drop, drop, drop}, "DROP", false},
		{[...]dataplane.Route{refuse, refuse, refuse}, "", false},
		{[...]dataplane.Route{refuse, drop, drop}, "DROP-NODE DROP-OUT REFUSE-POD", false},
	} {
		fe := frontend("198.51.100.7", 80)
		fe.Routes = c.routes
		got := newTarget(table(fe), dataplane.IPv4, "rr")
		var sets []string
		for name, members := range differing(got) {
			sets = append(sets, name)
			if len(members) != 1 || members[0] != door {
				t.Errorf("%v: set %s: %v", c.routes, name, members)
			}
		}
		slices.Sort(sets)
		if strings.Join(sets, " ") != c.want || (len(got.servers) > 0) != c.served || (len(got.sets[services]) > 0) != c.served {
			t.Errorf("%v: sets %v, %d virtual servers", c.routes, sets, len(got.servers))
		}
	}
}

// A virtual server that remembers clients has to be one that is dialled, because
// for a mark the kernel would forget the endpoint's port. Outside is most in need.
func TestAffinityBySource(t *testing.T) {
	got := newTarget(openDoors(func(t *dataplane.Table) {
		for i := range t.Sets {
			t.Sets[i].Affinity = time.Hour
		}
	}), dataplane.IPv4, "rr")
	for _, line := range serverLines(got) {
		marked := strings.HasPrefix(line, "-A -f")
		if strings.Contains(line, "-p 3600") == marked || strings.Contains(line, "-s mh -b mh-fallback →") != marked {
			t.Errorf("virtual server %s", line)
		}
	}
	if n := len(got.sets[markPod]); n != 3 || len(got.sets[markOutside]) != 0 {
		t.Errorf("%d doors have a mark for Pods, want 3, and none for outside: %v", n, names(got.sets[markOutside]))
	}
}

// Marks are told apart from those of others, and leave the node's own bits alone.
func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := marking{dataplane.Node{MasqueradeMark: 1 << rapid.IntRange(0, 31).Draw(t, "bit")}.Marks()}
		value, mask := m.tagged()
		taken := map[uint32]string{}
		seen := map[uint32]bool{m.mark(delivery, false): true}
		for i := range 200 {
			n, _ := numberOf(fmt.Sprint(i%100), taken)
			for _, masquerade := range []bool{false, true} {
				mark := m.mark(n, masquerade)
				if seen[mark] != (i >= 100) {
					t.Fatalf("set %d has mark %#x", i%100, mark)
				}
				seen[mark] = true
				if mark&mask != value || mark&m.Mask != map[bool]uint32{true: m.Masquerade}[masquerade] {
					t.Fatalf("mark %#x, tag %#x/%#x, bits of the node %#x", mark, value, mask, m.Mask)
				}
			}
		}
	})
}

// Sets that land on the same number get different ones.
func TestNumberCollision(t *testing.T) {
	taken := map[uint32]string{}
	n, _ := numberOf("a", taken)
	if other, first := numberOf("a", map[uint32]string{n: "b"}); other != n+1 || first {
		t.Errorf("number %d beside %d", other, n)
	}
}

// 500 ranges, one inside another, are 500 entries and no rule more; a range of all
// addresses is no restriction.
func TestAllowedRanges(t *testing.T) {
	ranges := func(n int) target {
		fe := frontend("198.51.100.7", 80)
		fe.Allowed = []netip.Prefix{}
		for i := range n {
			fe.Allowed = append(fe.Allowed, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i / 250), byte(i % 250), 7}), 20+i%13))
		}
		return newTarget(table(fe), dataplane.IPv4, "rr")
	}
	if got := ranges(500); len(got.sets[allowed]) < 490 || len(got.sets[restricted]) != 1 {
		t.Errorf("%d ranges of %d frontends", len(got.sets[allowed]), len(got.sets[restricted]))
	}
	if diff := cmp.Diff(ranges(1).rules, ranges(500).rules); diff != "" {
		t.Errorf("rules (-one range +500):\n%s", diff)
	}
	if got := ranges(0); len(got.sets[restricted]) != 1 || len(got.sets[allowed]) != 0 {
		t.Errorf("nobody may use it, but %v", differing(got))
	}
	fe := frontend("198.51.100.7", 80)
	fe.Allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("0.0.0.0/0")}
	if got := newTarget(table(fe), dataplane.IPv4, "rr"); got.has(restricted) {
		t.Errorf("everybody may use it, but %v", differing(got))
	}
}

// What the kernel cannot do is left out and told, and nothing else is touched.
func TestDoWithout(t *testing.T) {
	full := openDoors(func(t *dataplane.Table) {
		for i := range t.Frontends {
			if t.Frontends[i].Port == 30080 {
				t.Frontends[i].Allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			}
		}
	})
	for _, c := range []struct {
		lacks   []setKind
		left    int
		servers int
		without []setKind
	}{
		{nil, 0, 5, nil},
		{[]setKind{allowed}, 2, 3, []setKind{restricted, allowed}},
		{[]setKind{marks}, 3, 4, []setKind{marks, markOutside}},
		{[]setKind{brought}, 1, 5, []setKind{brought, arrivals}},
	} {
		have := observed{family: dataplane.IPv4}
		for _, k := range c.lacks {
			have.lacks[k] = true
		}
		got := newTarget(full, dataplane.IPv4, "rr").settle(have)
		if len(got.leftOut) != c.left || len(got.servers) != c.servers {
			t.Errorf("without %v: left out %v, servers %v", c.lacks, got.leftOut, serverLines(got))
		}
		for _, k := range c.without {
			if name := (setID{k, dataplane.IPv4}).String() + " "; got.has(k) || strings.Contains(got.rules.Text(), name) {
				t.Errorf("without %v there is %s", c.lacks, name)
			}
		}
	}
	if got := newTarget(full, dataplane.IPv4, "rr").settle(observed{lacks: [setKinds]bool{allowed: true}}); len(got.sets[dropped]) != 2 {
		t.Errorf("restricted frontends are not shut: %v", names(got.sets[dropped]))
	}
}
