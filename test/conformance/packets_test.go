package conformance

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// everyDoor is a Service with every door, on one port number where it can be.
const everyDoor = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.10
  selector: {app: web}
  externalIPs: [203.0.113.8]
  ports: [{name: t, port: 80, targetPort: 8080, nodePort: 30080}, {name: u, port: 80, targetPort: 8080, nodePort: 30080, protocol: UDP}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.7}]}}
`

// doorsOf are the addresses of everyDoor, in both families.
func doorsOf() []netip.AddrPort {
	var out []netip.AddrPort
	for _, text := range []string{"10.96.0.10:80", "192.0.2.1:30080", "203.0.113.7:80", "203.0.113.8:80"} {
		at := netip.MustParseAddrPort(text)
		for _, a := range twins(at.Addr().String()) {
			out = append(out, netip.AddrPortFrom(a, at.Port()))
		}
	}
	return out
}

// onDoors is onBackends for what needs every door, with extra facts of the node.
func onDoors(t *testing.T, pods int, facts string, test func(*testing.T, *stage, backend)) {
	onBackends(t, pods, func(t *testing.T, s *stage, b backend) {
		f, err := parseFacts(facts)
		if err != nil {
			t.Fatal(err)
		}
		if s.p.node, err = f.node(nil); err != nil {
			t.Fatal(err)
		}
		test(t, s, b)
	})
}

// TestRefusalAtOnce proves that a hundred connections at once are all refused
// within 50 ms at every door and from every source, with the kernel's limit on
// ICMP errors as it comes. UDP is refused by such errors: a client gets six at
// once and then one a second, whatever the backend (row C9).
func TestRefusalAtOnce(t *testing.T) {
	const probes = 100
	limit := 50 * time.Millisecond
	if os.Getenv(lab.GuestVariable) != "" {
		limit *= 10 // User Mode Linux pays for every system call
	}
	onDoors(t, 1, "", func(t *testing.T, s *stage, _ backend) {
		s.Node.Sysctl("net.ipv4.icmp_ratelimit", "1000")
		s.Node.Sysctl("net.ipv6.icmp.ratelimit", "1000")
		s.program("p1 app=other", everyDoor)
		for _, at := range doorsOf()[:2] {
			udp := lab.Burst(s.Pod(1), dataplane.UDP, at, probes, limit)
			if udp.Fates[lab.Refused] == 0 || udp.Fates[lab.OK] > 0 {
				t.Errorf("from p1 to %s/udp: %v within %v, want REFUSED as far as the kernel's limit lets", at, udp.Fates, limit)
			}
			t.Logf("from p1 to %s/udp: %v", at, udp.Fates)
		}
		for _, at := range doorsOf() {
			for _, from := range []*lab.Host{s.Pod(1), s.Node, s.Outside} {
				var got lab.Tally
				for range 3 { // somebody else may need the processor just now
					if got = lab.Burst(from, dataplane.TCP, at, probes, 3*time.Second); got.Took <= limit {
						break
					}
				}
				if got.Fates[lab.Refused] != probes || got.Took > limit {
					t.Errorf("from %s to %s: %v after %v, want all REFUSED within %v", from.Name, at, got.Fates, got.Took, limit)
				}
				t.Logf("from %s to %s: %v in %v", from.Name, at, got.Fates, got.Took.Round(time.Microsecond))
			}
		}
	})
}

// TestAffinityDoors proves that a client has one endpoint at whatever door it
// knocks, and that it is told by the source that it has before it is rewritten
// (rows C12, C13).
func TestAffinityDoors(t *testing.T) {
	objects := strings.Replace(everyDoor, "  selector:", "  sessionAffinity: ClientIP\n  selector:", 1)
	onDoors(t, 6, "", func(t *testing.T, s *stage, _ backend) {
		for n := 2; n <= 6; n++ {
			s.Pod(n).Serve(dataplane.TCP, 8080)
		}
		s.program(podLines(2, 6, "app=web"), objects)
		for i := range 8 { // clients: eight of them all by chance at one endpoint are one in 5^7
			for _, a := range twins(fmt.Sprintf("198.51.100.%d", 20+i)) {
				s.Outside.AddAddr("lan0", netip.PrefixFrom(a, a.BitLen()))
			}
		}
		used := map[string]bool{}
		for i := range 8 {
			for family, from := range twins(fmt.Sprintf("198.51.100.%d", 20+i)) {
				served := map[string]bool{}
				for n, at := range doorsOf() {
					if n%2 != family {
						continue
					}
					for range 3 {
						o := lab.Probe(s.Outside, dataplane.TCP, at, lab.Options{From: from})
						if o.Fate != lab.OK {
							t.Errorf("from %s to %s: %s", from, at, o)
						}
						served[o.Name()] = true
						used[o.Name()] = true
					}
				}
				if len(served) != 1 {
					t.Errorf("client %s was served by %v over its doors, want one endpoint", from, served)
				}
			}
		}
		if len(used) < 2 {
			t.Errorf("all clients were served by %v, want them told apart by their own source", used)
		}
	})
}

// TestPing proves that an address of a Service answers no ping, and that the
// node's own does (row B23).
func TestPing(t *testing.T) {
	const patience = 300 * time.Millisecond
	onBackends(t, 2, func(t *testing.T, s *stage, _ backend) {
		s.program("p2 app=web", web)
		for _, from := range []*lab.Host{s.Pod(1), s.Node, s.Outside} {
			for _, a := range twins("192.0.2.1") {
				if got := lab.Ping(from, a, patience); got != lab.OK {
					t.Errorf("ping of the node at %s from %s: %s", a, from.Name, got)
				}
			}
			for _, vip := range vips(10, true) {
				if got := lab.Ping(from, vip, patience); got != lab.Refused {
					t.Errorf("ping of %s from %s: %s, want REFUSED", vip, from.Name, got)
				}
			}
		}
	})
}

// TestNarrowPath proves that a client learns of a narrow link on the way to an
// endpoint: the router's error names the endpoint, and has to be told to the
// client in the words of its own connection (row B24).
func TestNarrowPath(t *testing.T) {
	onBackends(t, 1, func(t *testing.T, s *stage, _ backend) {
		l := lab.New(t, lab.WithPods(1), lab.SecondNode())
		s.Lab = l
		l.Remote.Serve(dataplane.TCP, 8080)
		l.Second.Run("ip", "link", "set", lab.Bridge, "mtu", "1300")
		s.program("q1 app=web", web)
		for _, vip := range vips(10, true) {
			for _, from := range []*lab.Host{l.Pod(1), l.Outside} {
				open := lab.Open(from, netip.AddrPortFrom(vip, 80))
				if err := open.Transfer(20_000); err != nil {
					t.Errorf("from %s to %s over a link of 1300 bytes: %v", from.Name, vip, err)
				}
			}
			if route := l.Pod(1).Run("ip", "route", "get", vip.String()); !strings.Contains(route, "mtu 1300") {
				t.Errorf("p1 has not learnt the way's width:\n%s", route)
			}
		}
	})
}
