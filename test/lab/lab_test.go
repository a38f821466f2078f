package lab

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// TestReach proves that every host of the lab reaches every other, with its
// own source address, over each protocol and family. SCTP is tried between
// hosts of one address only: it tells the peer about all addresses there are,
// and picks.
func TestReach(t *testing.T) {
	l := New(t, SecondNode())
	nodes, others := []*Host{l.Node, l.Second}, append([]*Host{l.Outside, l.Remote}, l.Pods...)
	reachAll(t, dataplane.TCP, append(nodes, others...))
	reachAll(t, dataplane.UDP, append(nodes, others...))
	t.Run("sctp", func(t *testing.T) {
		Require(t, SCTP)
		reachAll(t, dataplane.SCTP, others)
	})
}

func reachAll(t *testing.T, p dataplane.Protocol, hosts []*Host) {
	t.Helper()
	for _, h := range hosts {
		h.Serve(p, 8080)
	}
	for _, from := range hosts {
		for _, to := range hosts {
			for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
				at := netip.AddrPortFrom(to.Addr(f), 8080)
				out := Probe(from, p, at, Options{})
				if out.Fate != OK || out.Endpoint != to.Name || out.Local != at || out.Masqueraded() {
					t.Errorf("%s to %s, %s %s: %s", from.Name, to.Name, p, f, out)
				}
			}
		}
	}
}

// TestFates proves that each fate is told from the others.
func TestFates(t *testing.T) {
	l := New(t, WithPods(2))
	p1, p2, tcp, udp := l.Pod(1), l.Pod(2), dataplane.TCP, dataplane.UDP
	p2.Serve(tcp, 80)
	l.Node.Run("ip", "route", "add", "unreachable", "198.51.100.1/32")
	l.Node.Run("ip", "-6", "route", "add", "unreachable", "fd00:198::1/128")
	// A TCP client hears of an unreachable host at its second SYN, after 1 s, or at
	// the third, after 3 s, when the second came too early for another answer.
	const short, second = 200 * time.Millisecond, 8 * time.Second
	for _, tc := range []struct {
		name string
		from *Host
		p    dataplane.Protocol
		to   string
		wait time.Duration
		want Fate
	}{
		{"open port", p1, tcp, "10.244.0.12:80", short, OK},
		{"closed TCP port", p1, tcp, "10.244.0.12:81", short, Refused},
		{"closed UDP port", p1, udp, "10.244.0.12:81", short, Refused},
		{"closed TCP port, IPv6", p1, tcp, "[fd00:10:244::12]:81", short, Refused},
		{"closed UDP port, IPv6", p1, udp, "[fd00:10:244::12]:81", short, Refused},
		{"nobody's Service", p1, tcp, "10.96.0.10:80", short, Timeout},
		{"nobody's Service, UDP, IPv6", p1, udp, "[fd00:10:96::a]:80", short, Timeout},
		// One source is told of a missing route once a second, no less.
		{"no route, UDP", p2, udp, "198.51.100.1:80", short, Unreachable},
		{"no route", p1, tcp, "198.51.100.1:80", second, Unreachable},
		{"no route, IPv6", p1, tcp, "[fd00:198::1]:80", second, Unreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := Probe(tc.from, tc.p, netip.MustParseAddrPort(tc.to), Options{Timeout: tc.wait})
			if out.Fate != tc.want {
				t.Errorf("%s to %s: %s (%v), want %s", tc.p, tc.to, out, out.Err, tc.want)
			}
		})
	}
}

// TestCapture proves that a Service address nobody handles leaks to the
// default route, and that the capture sees it.
func TestCapture(t *testing.T) {
	l := New(t, WithPods(1))
	for _, vip := range []string{"10.96.0.10", "fd00:10:96::a"} {
		c := l.Node.Capture(Uplink)
		to := netip.AddrPortFrom(netip.MustParseAddr(vip), 80)
		if got := c.Sent(to.Addr()); got != 0 {
			t.Errorf("before the probe: %d packets", got)
		}
		Probe(l.Pod(1), dataplane.TCP, to, Options{Timeout: 100 * time.Millisecond})
		if got := c.Sent(to.Addr()); got != 1 {
			t.Errorf("after a TCP probe of 100 ms to %s: %d packets left the node, want its SYN", to, got)
		}
	}
}

// TestProbeMany proves that thousands of connections are quick and leave
// nothing at the client.
func TestProbeMany(t *testing.T) {
	l := New(t, WithPods(2))
	l.Pod(2).Serve(dataplane.TCP, 80)
	got := ProbeMany(l.Pod(1), dataplane.TCP, netip.AddrPortFrom(l.Pod(2).IPv4, 80), 3000)
	if got.Endpoints["p2:80"] != 3000 {
		t.Errorf("%v, first failure %v", got.Fates, got.Failure)
	}
	if left := l.Pod(1).Run("ss", "-Htan"); strings.Count(left, "\n") > 5 {
		t.Errorf("connections left at the client:\n%s", left)
	}
	t.Logf("3000 connections in %v, slowest %v", got.Took, got.Slowest)
}

// TestStop proves that a stopped server cuts its connections and refuses new ones.
func TestStop(t *testing.T) {
	l := New(t, WithPods(2))
	at := netip.AddrPortFrom(l.Pod(2).IPv4, 80)
	for range 3 { // the port is free again at once
		stop := l.Pod(2).Serve(dataplane.TCP, 80)
		reach := Probe(l.Pod(1), dataplane.TCP, at, Options{Source: 4000})
		stop()
		after := Probe(l.Pod(1), dataplane.TCP, at, Options{Source: 4000})
		if reach.Fate != OK || reach.Source.Port() != 4000 || after.Fate != Refused {
			t.Errorf("before %s from %s, after %s", reach, reach.Source, after)
		}
	}
}

// TestOpen proves that an open connection echoes, and that Echo sees its end.
func TestOpen(t *testing.T) {
	l := New(t, WithPods(2))
	stop := l.Pod(2).Serve(dataplane.TCP, 80)
	c := Open(l.Pod(1), netip.AddrPortFrom(l.Pod(2).IPv6, 80))
	if err := c.Echo(); err != nil || c.Outcome.Name() != "p2:80" {
		t.Errorf("%s: %v", c.Outcome, err)
	}
	stop()
	if err := c.Echo(); err == nil {
		t.Error("echo of a connection that was cut")
	}
}

func TestTwin(t *testing.T) {
	for v4, v6 := range map[string]string{
		"10.244.0.11":  "fd00:10:244::11",
		"10.244.1.11":  "fd00:10:244:1::11",
		"192.0.2.1":    "fd00:192:2::1",
		"10.96.0.200":  "fd00:10:96::200",
		"203.0.113.7":  "fd00:203:113::7",
		"198.51.100.1": "fd00:198:51::1",
		"172.16.0.1":   "invalid IP",
	} {
		if got, _ := Twin(netip.MustParseAddr(v4)); got.String() != v6 {
			t.Errorf("twin of %s is %s, want %s", v4, got, v6)
		}
	}
}
