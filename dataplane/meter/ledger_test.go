package meter_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
	"github.com/toyproxy/toyproxy/dataplane/meter"
	"github.com/toyproxy/toyproxy/test/tables"
)

// flow is a flow of a client port to a frontend that reached an endpoint, with what
// it has carried.
func flow(port int, to, endpoint string, packets uint64) conntrack.Counted {
	client, vip, ep := netip.AddrPortFrom(netip.MustParseAddr("10.244.0.9"), uint16(port)), netip.MustParseAddrPort(to), netip.MustParseAddrPort(endpoint)
	return conntrack.Counted{
		Flow: conntrack.Flow{Protocol: dataplane.TCP, ID: uint32(port), Original: conntrack.Tuple{Source: client, Destination: vip},
			Reply: conntrack.Tuple{Source: ep, Destination: client}},
		Sent: conntrack.Volume{Packets: packets, Bytes: 100 * packets}, Answered: conntrack.Volume{Packets: packets, Bytes: 1000 * packets},
	}
}

const (
	web  = "10.96.0.10:80"
	pod1 = "10.244.0.11:8080"
	pod2 = "10.244.0.12:8080"
)

// dump hands a whole dump to a ledger.
func dump(l *meter.Ledger, flows ...conntrack.Counted) {
	l.BeginDump()
	for _, f := range flows {
		l.Saw(f)
	}
	l.EndDump()
}

// totals are the lines of a ledger that have carried something, in short.
func totals(l *meter.Ledger) string {
	out := ""
	for _, line := range l.Lines() {
		if line.Count != (meter.Count{}) {
			out += fmt.Sprintf("%s: %d connections, %d active, %d/%d packets\n", line.Service, line.Connections, line.Active, line.In.Packets, line.Out.Packets)
		}
	}
	return out
}

func requireTotals(t *testing.T, l *meter.Ledger, want string) {
	t.Helper()
	if got := totals(l); got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

func TestLedger(t *testing.T) {
	over := flow(3, web, pod1, 9)
	over.Over = true
	refused := flow(4, web, web, 1) // nobody has translated it
	foreign := flow(5, "10.96.0.99:80", pod1, 1)
	for _, tc := range []struct {
		name  string
		steps func(*meter.Ledger)
		want  string
		lost  uint64
	}{
		{"seen, then ended", func(l *meter.Ledger) {
			dump(l, flow(1, web, pod1, 3))
			l.Ended(flow(1, web, pod1, 5))
			dump(l)
		}, "default/web:http: 1 connections, 0 active, 5/5 packets\n", 0},
		{"seen twice", func(l *meter.Ledger) { dump(l, flow(1, web, pod1, 3)); dump(l, flow(1, web, pod1, 4)) },
			"default/web:http: 1 connections, 1 active, 4/4 packets\n", 0},
		{"never seen", func(l *meter.Ledger) { l.Ended(flow(1, web, pod1, 5)) }, "default/web:http: 1 connections, 0 active, 5/5 packets\n", 0},
		{"over, and seen again", func(l *meter.Ledger) { dump(l, over); dump(l, over); l.Ended(over); dump(l) },
			"default/web:http: 1 connections, 0 active, 9/9 packets\n", 0},
		{"seen, then over", func(l *meter.Ledger) { dump(l, flow(3, web, pod1, 2)); dump(l, over); dump(l, over) },
			"default/web:http: 1 connections, 0 active, 9/9 packets\n", 0},
		{"left out of one dump", func(l *meter.Ledger) { dump(l, flow(1, web, pod1, 3)); dump(l); dump(l, flow(1, web, pod1, 4)) },
			"default/web:http: 1 connections, 1 active, 4/4 packets\n", 0},
		{"gone without a word", func(l *meter.Ledger) { dump(l, flow(1, web, pod1, 3)); dump(l); dump(l) },
			"default/web:http: 1 connections, 0 active, 3/3 packets\n", 1},
		{"another of the same number", func(l *meter.Ledger) { dump(l, flow(1, web, pod1, 3)); dump(l, flow(1, web, pod1, 2)) },
			"default/web:http: 2 connections, 1 active, 5/5 packets\n", 1},
		{"nobody's", func(l *meter.Ledger) { dump(l, refused, foreign); l.Ended(refused); l.Ended(foreign) }, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := meter.NewLedger()
			l.Set(tables.Small())
			dump(l)
			tc.steps(l)
			requireTotals(t, l, tc.want)
			if l.Lost() != tc.lost {
				t.Errorf("%d lost, want %d", l.Lost(), tc.lost)
			}
		})
	}
}

// TestLedgerBefore: what was there before is not counted, whether the table is known
// before the first dump or after it.
func TestLedgerBefore(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("table late ", late), func(t *testing.T) {
			l := meter.NewLedger()
			if !late {
				l.Set(tables.Small())
			}
			dump(l, flow(1, web, pod1, 100), flow(2, web, pod1, 100), flow(3, web, pod1, 100))
			l.Set(tables.Small())
			l.Ended(flow(3, web, pod1, 100))
			dump(l, flow(1, web, pod1, 101), flow(2, web, pod1, 100), flow(4, web, pod1, 7))
			requireTotals(t, l, "default/web:http: 1 connections, 3 active, 8/8 packets\n")
			dump(l)
			dump(l)
			requireTotals(t, l, "default/web:http: 1 connections, 0 active, 8/8 packets\n")
			if l.Lost() != 1 { // 4 alone: the end of what was there before is not always told
				t.Errorf("%d lost, want 1", l.Lost())
			}
		})
	}
}

// TestLedgerChange: a Service port goes on while it has a frontend, and its counts go
// with the last one; endpoints come and go.
func TestLedgerChange(t *testing.T) {
	l := meter.NewLedger()
	table := tables.Small()
	l.Set(table)
	dump(l)
	dump(l, flow(1, web, pod1, 3), flow(2, web, pod2, 4))
	after := dataplane.Table{}
	tables.ClusterIP(&after, "default/web:http", web, dataplane.TCP, pod2, "10.244.0.13:8080")
	of := func(t dataplane.Table) (out dataplane.Table) {
		for _, fe := range t.Frontends {
			if fe.Service == "default/web:http" {
				out.Frontends = append(out.Frontends, fe)
			}
		}
		return out
	}
	l.Change(dataplane.Delta{Before: of(table), After: after})
	dump(l, flow(1, web, pod1, 3), flow(2, web, pod2, 4))
	requireTotals(t, l, "default/web:http: 2 connections, 2 active, 7/7 packets\n")
	addrs := func() (out []string) {
		for _, line := range l.Lines() {
			for _, e := range line.Endpoints {
				if line.Service == "default/web:http" {
					out = append(out, fmt.Sprint(e.Addr.Addr(), " ", e.Connections, " ", e.Active))
				}
			}
		}
		return out
	}
	if diff := cmp.Diff([]string{"10.244.0.11 1 1", "10.244.0.12 1 1", "10.244.0.13 0 0"}, addrs()); diff != "" {
		t.Errorf("endpoints while a connection to one that went is open (-want +got):\n%s", diff)
	}
	l.Ended(flow(1, web, pod1, 3))
	dump(l, flow(2, web, pod2, 4))
	if diff := cmp.Diff([]string{"10.244.0.12 1 1", "10.244.0.13 0 0"}, addrs()); diff != "" {
		t.Errorf("endpoints after its end (-want +got):\n%s", diff)
	}
	l.Change(dataplane.Delta{Before: after})
	dump(l, flow(2, web, pod2, 9))
	if requireTotals(t, l, ""); len(l.Lines()) != 1 {
		t.Errorf("lines %+v, want that of default/empty alone", l.Lines())
	}
}

// TestLedgerIsExact: whatever order dumps and ends come in, and however often the
// table is told again, all that flows carried is counted once.
func TestLedgerIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := meter.NewLedger()
		l.Set(tables.Small())
		dump(l)
		living := map[int]conntrack.Counted{}
		var made, packets, active uint64
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				made++
				packets++
				living[int(made)] = flow(int(made), web, rapid.SampledFrom([]string{pod1, pod2}).Draw(t, "endpoint"), 1)
			case 2:
				for id, f := range living {
					more := uint64(rapid.IntRange(0, 3).Draw(t, "more"))
					packets += more
					living[id] = flow(id, web, f.Reply.Source.String(), f.Sent.Packets+more)
				}
			case 3:
				id := rapid.IntRange(1, int(made)+1).Draw(t, "which")
				if f, ok := living[id]; ok {
					l.Ended(f)
					delete(living, id)
				}
			case 4:
				if step%2 == 0 {
					l.Set(tables.Small())
				}
				dump(l, values(living)...)
			}
		}
		dump(l, values(living)...)
		active = uint64(len(living))
		i := slices.IndexFunc(l.Lines(), func(l meter.Line) bool { return l.Service == "default/web:http" })
		want := meter.Count{Connections: made, Active: int(active),
			In: conntrack.Volume{Packets: packets, Bytes: 100 * packets}, Out: conntrack.Volume{Packets: packets, Bytes: 1000 * packets}}
		if diff := cmp.Diff(want, l.Lines()[i].Count); diff != "" || l.Lost() != 0 {
			t.Errorf("%d lost; count (-want +got):\n%s", l.Lost(), diff)
		}
	})
}

func values(m map[int]conntrack.Counted) (out []conntrack.Counted) {
	for _, f := range m {
		out = append(out, f)
	}
	return out
}

func TestSince(t *testing.T) {
	count := func(n uint64) meter.Count {
		return meter.Count{Connections: n, Active: int(n), In: conntrack.Volume{Packets: n, Bytes: n}, Out: conntrack.Volume{Packets: n, Bytes: n}}
	}
	line := func(name string, n, ep uint64) meter.Line {
		return meter.Line{Service: name, Protocol: dataplane.TCP, Count: count(n), Endpoints: []meter.Endpoint{{Addr: netip.MustParseAddrPort(pod1), Count: count(ep)}}}
	}
	now := []meter.Line{line("a", 5, 5), line("b", 3, 1), line("c", 2, 2)}
	got := meter.Since(now, []meter.Line{line("a", 2, 1), line("b", 9, 9)})
	want := []uint64{3, 3, 2} // b has begun anew, c was not there
	wantEndpoints := []uint64{4, 1, 2}
	for i, l := range got {
		if l.Connections != want[i] || l.In.Bytes != want[i] || l.Active != now[i].Active || l.Endpoints[0].Connections != wantEndpoints[i] {
			t.Errorf("%s: %+v", l.Service, l)
		}
	}
	if diff := cmp.Diff(line("a", 5, 5), now[0], cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Errorf("the lines themselves have changed: %s", diff)
	}
}

// BenchmarkSaw is what a flow of a dump costs that was there before.
func BenchmarkSaw(b *testing.B) {
	l := meter.NewLedger()
	l.Set(tables.Small())
	dump(l)
	const flows = 10_000
	all := make([]conntrack.Counted, flows)
	for i := range all {
		all[i] = flow(i+1, web, pod1, 1)
	}
	dump(l, all...)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		dump(l, all...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/flows, "ns/flow")
}
