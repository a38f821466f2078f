package meter_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/dataplane/meter"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// eachBackend runs a test with each backend that the kernel has, in a guest with
// IPVS alone: there the others have had their turn natively.
func eachBackend(t *testing.T, test func(*testing.T, dataplane.Backend)) {
	for _, b := range []struct {
		name    string
		needs   []lab.Feature
		backend func(t *testing.T) dataplane.Backend
	}{
		{"iptables", []lab.Feature{lab.IptablesNFT}, func(*testing.T) dataplane.Backend { return iptables.New(iptables.Config{Engine: xtables.NFT}) }},
		{"nftables", []lab.Feature{lab.Nftables}, func(*testing.T) dataplane.Backend { return nftables.New(nftables.Config{}) }},
		{"ipvs", []lab.Feature{lab.IPVS, lab.IPSet}, func(t *testing.T) dataplane.Backend { return ipvs.New(ipvs.Config{StateDir: t.TempDir()}) }},
	} {
		t.Run(b.name, func(t *testing.T) {
			lab.Require(t, b.needs...)
			test(t, b.backend(t))
		})
	}
}

// node is a lab whose node runs a backend and a meter.
type node struct {
	*lab.Lab
	t     *testing.T
	table dataplane.Table
	meter *meter.Meter
}

// newNode programs Service web (p2 and p3), with a ClusterIP for TCP and UDP and a
// node port.
func newNode(t *testing.T, b dataplane.Backend) *node {
	n := &node{t: t}
	program := func(t testing.TB, table dataplane.Table) {
		n.table = table
		tables.Converge(t, b, table)
	}
	n.Lab = tables.Programmed(t, program, func(l *lab.Lab, table *dataplane.Table) {
		tables.Service(t, table, "default/web:http", "10.96.0.10:80", dataplane.TCP, l.Pod(2), l.Pod(3))
		tables.Service(t, table, "default/web:dns", "10.96.0.10:53", dataplane.UDP, l.Pod(2))
		tables.Service(t, table, "default/idle", "10.96.0.11:80", dataplane.TCP, l.Pod(2))
		for i, fe := range table.Frontends {
			if fe.Service != "default/web:http" {
				continue
			}
			fe.Kind, fe.Addr, fe.Port = dataplane.NodePort, netip.IPv4Unspecified(), 30080
			if table.Frontends[i].Addr.Is6() {
				fe.Addr = netip.IPv6Unspecified()
			}
			for c := range fe.Routes {
				fe.Routes[c].Masquerade = true
			}
			table.Frontends = append(table.Frontends, fe)
		}
		table.Sort()
	})
	n.Node.Do(func() {
		plan, err := meter.Accounting(filepath.Join(t.TempDir(), "sysctls.json"))
		if err == nil {
			err = plan.Apply(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if n.meter, err = meter.Open(); err != nil {
			lab.Skip(t, err)
		}
	})
	t.Cleanup(func() { n.meter.Close() })
	n.meter.Set(n.table)
	n.read()
	return n
}

func (n *node) read() {
	n.t.Helper()
	if err := n.meter.Read(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// line returns what a Service port has carried.
func (n *node) line(service string) meter.Line {
	n.t.Helper()
	for _, l := range n.meter.Lines() {
		if l.Service == service {
			return l
		}
	}
	n.t.Fatalf("no line of %s in %+v", service, n.meter.Lines())
	return meter.Line{}
}

// TestCounts: every connection is counted once, and every packet and byte, through
// whatever door, with what backend.
func TestCounts(t *testing.T) {
	eachBackend(t, func(t *testing.T, b dataplane.Backend) {
		n := newNode(t, b)
		for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
			n.countTCP(f)
			n.countUDP(f)
		}
		if l := n.line("default/idle"); l.Count != (meter.Count{}) || len(l.Endpoints) != 2 {
			t.Errorf("a Service that nobody uses: %+v", l)
		}
		if s := n.meter.Stats(); s.Lost != 0 || s.Uncounted != 0 || s.Overflows != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// countTCP opens connections from each class of clients and sends a known amount.
func (n *node) countTCP(f dataplane.Family) {
	n.t.Helper()
	const size = 100_000
	at := tables.Both(n.t, "10.96.0.10:80")[f/6]
	before := n.line("default/web:http")
	for i, from := range []*lab.Host{n.Pod(1), n.Node, n.Outside, n.Outside} {
		if i == 3 {
			at = netip.AddrPortFrom(n.Node.Addr(f), 30080)
		}
		c := lab.Open(from, at)
		if err := c.Transfer(size); err != nil {
			n.t.Fatalf("%s from %s: %v", f, from.Name, err)
		}
		defer c.Reset()
	}
	n.read()
	now := n.line("default/web:http")
	got := now.Count.Since(before.Count)
	if got.Connections != 4 || got.Active != before.Active+4 {
		n.t.Errorf("%s: %d connections, %d active, want 4 and 4", f, got.Connections, got.Active)
	}
	for _, v := range []conntrack.Volume{got.In, got.Out} {
		// Headers are at most 60 + 60 bytes a packet, and packets many. A busy machine
		// sends a few of them twice.
		if v.Bytes < 4*size || v.Bytes > 4*size*5/4+v.Packets*120 || v.Packets < 4*4 {
			n.t.Errorf("%s: %+v for %d bytes each way", f, v, 4*size)
		}
	}
	var parts uint64
	for _, e := range now.Endpoints {
		parts += e.Connections
	}
	if parts != now.Connections || len(now.Endpoints) != 4 {
		n.t.Errorf("endpoints %+v have %d of %d connections", now.Endpoints, parts, now.Connections)
	}
}

// countUDP knows each byte: one datagram there, one back.
func (n *node) countUDP(f dataplane.Family) {
	n.t.Helper()
	at := tables.Both(n.t, "10.96.0.10:53")[f/6]
	before := n.line("default/web:dns")
	var sent, answered int
	n.Pod(1).Do(func() {
		c, err := net.Dial("udp", at.String())
		if err != nil {
			n.t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(3 * time.Second))
		sent, _ = c.Write(make([]byte, 123))
		if answered, err = c.Read(make([]byte, 2048)); err != nil {
			n.t.Fatal(err)
		}
	})
	n.read()
	got := n.line("default/web:dns").Count.Since(before.Count)
	header := map[dataplane.Family]int{dataplane.IPv4: 28, dataplane.IPv6: 48}[f]
	want := meter.Count{Connections: 1, Active: before.Active + 1,
		In:  conntrack.Volume{Packets: 1, Bytes: uint64(header + sent)},
		Out: conntrack.Volume{Packets: 1, Bytes: uint64(header + answered)}}
	if got != want {
		n.t.Errorf("%s over UDP: %+v, want %+v", f, got, want)
	}
}

// TestShortFlows: flows that begin and end between two dumps are counted by what
// the kernel tells of their end.
func TestShortFlows(t *testing.T) {
	eachBackend(t, func(t *testing.T, b dataplane.Backend) {
		n := newNode(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		dumps := n.meter.Stats().Dumps
		go func() { served <- n.meter.Serve(ctx, time.Hour) }()
		for n.meter.Stats().Dumps == dumps { // its first one
			time.Sleep(time.Millisecond)
		}
		const flows = 200
		if got := lab.ProbeMany(n.Pod(1), dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), flows); got.Fates[lab.OK] != flows {
			t.Fatalf("fates %v: %v", got.Fates, got.Failure)
		}
		n.Node.Run("conntrack", "-D", "-p", "tcp", "-d", "10.96.0.10")
		for deadline := time.Now().Add(time.Minute); n.line("default/web:http").Connections < flows && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		l, s := n.line("default/web:http"), n.meter.Stats()
		if l.Connections != flows || l.Active != 0 || l.In.Packets < 4*flows || s.Lost != 0 {
			t.Errorf("%+v after %d connections; %+v", l, flows, s)
		}
		if s.Dumps > dumps+1 {
			t.Errorf("%d dumps: the flows ought to be known by their ends alone", s.Dumps)
		}
	})
}

// TestBefore: what was there before the meter is active, and only what comes from
// then on is counted.
func TestBefore(t *testing.T) {
	eachBackend(t, func(t *testing.T, b dataplane.Backend) {
		n := newNode(t, b)
		c := lab.Open(n.Pod(1), netip.MustParseAddrPort("10.96.0.10:80"))
		if err := c.Transfer(10_000); err != nil {
			t.Fatal(err)
		}
		var later *meter.Meter
		n.Node.Do(func() {
			var err error
			if later, err = meter.Open(); err != nil {
				t.Fatal(err)
			}
		})
		defer later.Close()
		later.Set(n.table)
		n.meter = later
		n.read()
		if l := n.line("default/web:http"); l.Count != (meter.Count{Active: 1}) {
			t.Errorf("at the start: %+v", l.Count)
		}
		if err := c.Transfer(1000); err != nil {
			t.Fatal(err)
		}
		n.read()
		if l := n.line("default/web:http"); l.Connections != 0 || l.In.Bytes < 1000 || l.In.Bytes > 3000 {
			t.Errorf("after 1000 bytes more: %+v", l.Count)
		}
	})
}
