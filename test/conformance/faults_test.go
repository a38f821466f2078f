package conformance

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// fewer scales a number of rounds down for a guest, where each call of the
// kernel takes many times as long.
func fewer(n int) int {
	if os.Getenv(lab.GuestVariable) != "" {
		return max(n/10, 5)
	}
	return n
}

// portsAt returns a table of n Services at 10.96.1.1, 10.96.1.2, …: endpoints of
// Service i are Pods at port 9000+i, so that an answer tells whose it is.
func portsAt(n int, pods func(i int) []int) dataplane.Table {
	t := dataplane.Table{Node: dataplane.Node{PodRanges: lab.PodRanges(), ServiceRanges: lab.ServiceRanges()}}
	for i := range n {
		name := fmt.Sprintf("default/s%03d", i)
		route := dataplane.Route{Verdict: dataplane.Refuse}
		if eps := pods(i); len(eps) > 0 {
			s := dataplane.EndpointSet{Name: name, Service: name, Protocol: dataplane.TCP}
			for _, p := range eps {
				addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(10 + p)}), uint16(9000+i))
				s.Endpoints = append(s.Endpoints, dataplane.Endpoint{Addr: addr, Weight: 1, Local: true})
			}
			t.Sets = append(t.Sets, s)
			route = dataplane.Route{Verdict: dataplane.Forward, Set: name}
		}
		t.Frontends = append(t.Frontends, dataplane.Frontend{
			Key:     dataplane.Key{Addr: numbered(i), Protocol: dataplane.TCP, Port: 80},
			Service: name, Routes: [dataplane.Sources]dataplane.Route{route, route, route}})
	}
	t.Sort()
	return t
}

func numbered(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 96, byte(1 + i/250), byte(1 + i%250)})
}

// background runs a test's own traffic until the returned function is called.
func background(step func()) (stop func()) {
	var wait sync.WaitGroup
	done := make(chan struct{})
	wait.Add(1)
	go func() {
		defer wait.Done()
		for {
			select {
			case <-done:
				return
			default:
				step()
			}
		}
	}()
	return func() { close(done); wait.Wait() }
}

// TestCrossedUpdates proves that no Service ever answers with another's
// endpoint while hundreds change at random, and that none of the changes is lost
// (fault 77).
func TestCrossedUpdates(t *testing.T) {
	const seed = 77
	services, edits, inOne := fewer(300), fewer(1000), 10
	onBackends(t, 4, func(t *testing.T, s *stage, _ backend) {
		for _, pod := range s.Pods[1:] {
			for i := range services {
				pod.Serve(dataplane.TCP, uint16(9000+i))
			}
		}
		r := rand.New(rand.NewPCG(seed, seed))
		has := make([][]int, services)
		for i := range has {
			has[i] = []int{2, 3}
		}
		choose := func(i int) []int { return has[i] }
		s.load(portsAt(services, choose))
		asked := 0
		reader := rand.New(rand.NewPCG(seed, seed+1))
		stop := background(func() {
			i := reader.IntN(services)
			o := lab.Probe(s.Pod(1), dataplane.TCP, netip.AddrPortFrom(numbered(i), 80), lab.Options{})
			if asked++; o.Fate == lab.OK && o.Local.Port() != uint16(9000+i) {
				t.Errorf("Service %d: %s, want port %d", i, o, 9000+i)
			}
		})
		for range edits / inOne {
			for range inOne {
				has[r.IntN(services)] = [][]int{nil, {2}, {3}, {4}, {2, 3}, {3, 4}, {2, 3, 4}}[r.IntN(7)]
			}
			s.load(portsAt(services, choose))
		}
		stop()
		if asked < 20 {
			t.Errorf("only %d connections were tried meanwhile", asked)
		}
		if diff := differences(fromScratch(t, s.backend, portsAt(services, choose)), dumpOf(s.Node, rulesOf())); diff != "" {
			t.Errorf("the kernel differs from one programmed from nothing:\n%s", diff)
		}
	})
}

// load makes the kernel match a table.
func (s *stage) load(table dataplane.Table) {
	s.t.Helper()
	if err := program(s.Node, s.backend, table); err != nil {
		s.t.Fatal(err)
	}
}

// TestComesAndGoes proves that Services and endpoints that come and go leave
// nothing behind, and that no removal is refused as "busy" (fault 54).
func TestComesAndGoes(t *testing.T) {
	onBackends(t, 0, func(t *testing.T, s *stage, _ backend) {
		base := portsAt(20, func(int) []int { return []int{2, 3} })
		s.load(base)
		before := dumpOf(s.Node, rulesOf())
		for round := range fewer(200) {
			s.load(portsAt(20+round%5, func(i int) []int { return [][]int{{2}, {3}, nil, {2, 3, 4}}[(i+round)%4] }))
		}
		s.load(base)
		if left := differences(before, dumpOf(s.Node, rulesOf())); left != "" {
			t.Errorf("the kernel is not as before:\n%s", left)
		}
	})
}

// TestUsedPorts proves that a client that uses its ports again is never delayed
// by what the kernel remembers of them, and goes to the endpoint there is now
// (fault 64).
func TestUsedPorts(t *testing.T) {
	onBackends(t, 3, func(t *testing.T, s *stage, _ backend) {
		for _, p := range s.Pods[1:] {
			p.Serve(dataplane.TCP, 9000)
		}
		for round := range fewer(40) {
			pod := 2 + round%2
			s.load(portsAt(1, func(int) []int { return []int{pod} }))
			for port := range uint16(50) {
				probe := func() lab.Outcome {
					return lab.Probe(s.Pod(1), dataplane.TCP, netip.AddrPortFrom(numbered(0), 80), lab.Options{Source: 40000 + port})
				}
				o := probe()
				if o.Fate == lab.OK && o.Endpoint != s.Pod(pod).Name {
					// A word of the endpoint before that crosses the client's reset makes the
					// kernel take the next SYN for one of the same connection, once.
					o = probe()
				}
				if o.Endpoint != s.Pod(pod).Name || o.Took > 900*time.Millisecond {
					t.Fatalf("round %d, source port %d: %s after %s, want %s at once", round, 40000+port, o, o.Took, s.Pod(pod).Name)
				}
			}
		}
	})
}

// TestKeepAlive proves that connections outlive the scale-down of the Service
// that they came by (fault 65).
func TestKeepAlive(t *testing.T) {
	onBackends(t, 3, func(t *testing.T, s *stage, _ backend) {
		for _, p := range s.Pods[1:] {
			p.Serve(dataplane.TCP, 9000)
		}
		s.load(portsAt(1, func(int) []int { return []int{2, 3} }))
		var open []*lab.Conn
		for range 50 {
			open = append(open, lab.Open(s.Pod(1), netip.AddrPortFrom(numbered(0), 80)))
		}
		for _, left := range [][]int{{3}, {3}, nil, nil} { // each twice: a pass that changes nothing
			s.load(portsAt(1, func(int) []int { return left }))
			for i, c := range open {
				if err := c.Echo(); err != nil {
					t.Fatalf("connection %d to %s, endpoints now %v: %v", i, c.Outcome.Name(), left, err)
				}
			}
		}
	})
}

// TestSourceRangesStayShut proves that passes never open a restricted address
// for a moment, to clients outside or to the node itself (fault 69).
func TestSourceRangesStayShut(t *testing.T) {
	onBackends(t, 3, func(t *testing.T, s *stage, b backend) {
		for _, p := range s.Pods[1:] {
			p.Serve(dataplane.TCP, 9000)
		}
		restricted := func(pods ...int) dataplane.Table {
			table := portsAt(20, func(int) []int { return pods })
			fe := table.Frontends[0]
			fe.Addr, fe.Kind = netip.MustParseAddr("203.0.113.5"), dataplane.LoadBalancerIP
			fe.Allowed = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
			table.Frontends = append(table.Frontends, fe)
			table.Sort()
			return table
		}
		s.load(restricted(2))
		asked := 0
		stop := background(func() {
			from := []*lab.Host{s.Outside, s.Pod(1), s.Node}[asked%3]
			o := lab.Probe(from, dataplane.TCP, netip.MustParseAddrPort("203.0.113.5:80"), lab.Options{Timeout: 20 * time.Millisecond})
			if asked++; o.Fate != lab.Timeout && o.Fate != lab.Broken {
				t.Errorf("from %s: %s, want nothing", from.Name, o)
			}
		})
		for round := range 20 {
			s.load(restricted([][]int{{2}, {3}, {2, 3}, nil}[round%4]...))
		}
		for deadline := time.Now().Add(10 * time.Second); asked < 20 && time.Now().Before(deadline); {
			s.load(restricted(2, 3))
		}
		stop()
		if asked < 20 {
			t.Errorf("only %d connections were tried meanwhile", asked)
		}
	})
}

// TestRewrittenSource proves that the source of a rewritten packet is the
// address of the link it leaves by, however many others the node has (fault 46).
func TestRewrittenSource(t *testing.T) {
	for _, b := range backends() {
		if !b.here() {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			lab.Require(t, append(b.needs, lab.Namespaces)...)
			s := &stage{lab.New(t, lab.SecondNode()), t, b.make(t), newPipeline()}
			s.Remote.Serve(dataplane.TCP, 9000)
			s.Node.AddAddr("lo", netip.MustParsePrefix("192.0.2.99/32"))
			table := portsAt(1, func(int) []int { return []int{1} })
			table.Sets[0].Endpoints[0] = dataplane.Endpoint{Addr: netip.MustParseAddrPort("10.244.1.11:9000"), Weight: 1}
			for c := range table.Frontends[0].Routes {
				table.Frontends[0].Routes[c].Masquerade = dataplane.Source(c) != dataplane.FromPod
			}
			s.load(table)
			for _, from := range []*lab.Host{s.Outside, s.Node} {
				o := lab.Probe(from, dataplane.TCP, netip.AddrPortFrom(numbered(0), 80), lab.Options{})
				if o.Fate != lab.OK || o.Peer.Addr() != netip.MustParseAddr("192.0.2.1") {
					t.Errorf("from %s: %s, want the source 192.0.2.1", from.Name, o)
				}
			}
		})
	}
}

// TestSameTuple proves that a connection to a Service and one to its endpoint
// itself, from one port of one client, live beside each other (kubernetes#90042).
// IPVS cannot do it: it takes the answers of both for the Service's, whatever rules
// there are. There the Service has to answer, and the other is looked at only.
func TestSameTuple(t *testing.T) {
	onBackends(t, 2, func(t *testing.T, s *stage, b backend) {
		s.Pod(2).Serve(dataplane.TCP, 9000)
		s.load(portsAt(1, func(int) []int { return []int{2} }))
		direct := s.dialFrom(s.Pod(1), 40001, "10.244.0.12:9000")
		for range 3 {
			o := lab.Probe(s.Pod(1), dataplane.TCP, netip.AddrPortFrom(numbered(0), 80), lab.Options{Source: 40001})
			if o.Fate != lab.OK || o.Took > 900*time.Millisecond {
				t.Errorf("by the Service, from the port of an open connection to its endpoint: %s after %s", o, o.Took)
			}
		}
		if _, err := direct.Write([]byte("still there?")); err != nil {
			t.Errorf("the connection to the endpoint: %v", err)
		}
		words := make([]byte, 12)
		_, err := io.ReadFull(direct, words)
		switch {
		case err == nil && string(words) == "still there?":
		case b.name == "ipvs":
			t.Logf("the connection to the endpoint hangs, as IPVS has it: %v", err)
		default:
			t.Errorf("the connection to the endpoint: %q, %v", words, err)
		}
	})
}

// dialFrom opens a connection from a port that others may use as well, and reads
// its greeting.
func (s *stage) dialFrom(h *lab.Host, port int, to string) net.Conn {
	s.t.Helper()
	dialer := net.Dialer{Timeout: 3 * time.Second, LocalAddr: &net.TCPAddr{Port: port}, Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) })
	}}
	var conn net.Conn
	var err error
	h.Do(func() { conn, err = dialer.Dial("tcp", to) })
	if err == nil {
		s.t.Cleanup(func() { conn.Close() })
		err = conn.SetDeadline(time.Now().Add(5 * time.Second))
	}
	if err == nil {
		_, err = conn.Read(make([]byte, 256))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}
