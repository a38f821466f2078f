package conntrack

import (
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

const (
	vip      = "10.96.0.53:53"
	otherVIP = "10.96.0.54:53"
	external = "203.0.113.7:5060"
	p2, p3   = "10.244.0.12:53", "10.244.0.13:53"
)

// serve starts the servers of p2 and p3.
func (s *stage) serve(p dataplane.Protocol) {
	s.Pod(2).Serve(p, 53)
	s.Pod(3).Serve(p, 53)
}

// TestFirstEndpoint is field fault 4: a client that talks before there is anybody
// to talk to is heard as soon as there is, whether the Service was not there or
// was empty.
func TestFirstEndpoint(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.UDP)
		clients := []client{s.client(s.Pod(1), vip, 4000), s.client(s.Outside, vip, 4000), s.client(s.Node, vip, 4000)}
		for _, c := range clients {
			c.want("TIMEOUT") // nobody's rules: it leaves by the default route
		}
		if n := len(s.tracked(s.at(vip))); n != len(clients) {
			t.Fatalf("%d flows before the Service, want %d: the test proves nothing", n, len(clients))
		}
		ready := s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, p2)
		s.rules(ready.Table)
		clients[0].want("TIMEOUT") // the fault
		if got := len(s.clean(ready.Table)); got != len(clients) {
			t.Errorf("%d flows removed, want %d", got, len(clients))
		}
		for _, c := range clients {
			c.want("p2")
		}
		s.pass(s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP))
		for _, c := range clients {
			c.want("REFUSED")
		}
		s.pass(s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, p3))
		for _, c := range clients {
			c.want("p3")
		}
	})
}

// TestFirstEndpointExternal is the same for an address outside of the Service
// ranges, which our rules let pass before the Service is there.
func TestFirstEndpointExternal(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.UDP)
		c := s.client(s.Pod(1), external, 4000)
		s.pass(s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, p2))
		c.want("TIMEOUT")
		ready := s.service(newTable(), dataplane.ExternalIP, external, dataplane.UDP, p2)
		s.rules(ready.Table)
		c.want("TIMEOUT") // the fault
		s.clean(ready.Table)
		c.want("p2")
	})
}

// TestReplacedEndpoint is field fault 11, and the first half of 29: whatever door
// the client came by, it reaches the new endpoint from the same port. Flows of
// others, and those of the other family, keep their entries.
func TestReplacedEndpoint(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.UDP)
		s.Outside.Serve(dataplane.UDP, 30060)
		build := func(endpoint string) *builder {
			b := s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, endpoint)
			s.service(b, dataplane.NodePort, "0.0.0.0:30060", dataplane.UDP, endpoint)
			s.service(b, dataplane.ExternalIP, external, dataplane.UDP, endpoint)
			return s.service(b, dataplane.LoadBalancerIP, "203.0.113.8:53", dataplane.UDP, endpoint)
		}
		clients := []client{s.client(s.Pod(1), vip, 4000), s.client(s.Outside, "192.0.2.1:30060", 4001),
			s.client(s.Outside, external, 4002), s.client(s.Node, "203.0.113.8:53", 4003)}
		foreign := s.client(s.Pod(1), "192.0.2.10:30060", 4004)
		s.pass(build(p2))
		for _, c := range clients {
			c.want("p2")
		}
		foreign.want("X")
		before := s.tracked(foreign.to)
		s.rules(build(p3).Table)
		clients[1].want("p2") // the fault
		if got := len(s.clean(build(p3).Table)); got != len(clients) {
			t.Errorf("%d flows removed, want %d", got, len(clients))
		}
		for _, c := range clients {
			c.want("p3")
		}
		if after := s.tracked(foreign.to); len(before) != 1 || len(after) != 1 || before[0].ID != after[0].ID {
			t.Errorf("flow to another host's port %d: %v before, %v after", foreign.to.Port(), before, after)
		}
		for _, c := range s.pass(build(p3)) {
			t.Errorf("nothing changed: %s", c)
		}
	})
}

// TestOtherFamilyStays is the rest of field fault 29.
func TestOtherFamilyStays(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.UDP)
		other := *s
		other.family = dataplane.IPv4 + dataplane.IPv6 - s.family
		build := func(endpoint string) *builder {
			return s.service(other.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, p2), dataplane.LoadBalancerIP, vip, dataplane.UDP, endpoint)
		}
		mine, theirs := s.client(s.Pod(1), vip, 4000), other.client(s.Pod(1), vip, 4000)
		s.pass(build(p2))
		mine.want("p2")
		theirs.want("p2")
		before := s.tracked(theirs.to)
		s.pass(build(p3))
		mine.want("p3")
		theirs.want("p2")
		if after := s.tracked(theirs.to); len(before) != 1 || len(after) != 1 || before[0].ID != after[0].ID {
			t.Errorf("the other family: %v before, %v after", before, after)
		}
	})
}

// TestHandshakeBeforeService is field fault 26: a client that repeats its SYN from
// one port gets through once there is a Service; open connections are never cut.
func TestHandshakeBeforeService(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.TCP)
		s.pass(s.service(newTable(), dataplane.ClusterIP, vip, dataplane.TCP, p2))
		open := lab.Open(s.Pod(1), s.at(vip))
		to := s.at("203.0.113.9:80")
		outcome := make(chan lab.Outcome, 1)
		go func() {
			outcome <- lab.Probe(s.Outside, dataplane.TCP, to, lab.Options{Source: 40000, Timeout: time.Minute})
		}()
		deadline := time.Now().Add(30 * time.Second)
		for len(s.tracked(to)) == 0 {
			if time.Now().After(deadline) {
				t.Fatal("no flow of the first SYN")
			}
			time.Sleep(5 * time.Millisecond)
		}
		start := time.Now()
		done := s.pass(s.service(newTable(), dataplane.LoadBalancerIP, "203.0.113.9:80", dataplane.TCP, p3))
		if len(done) != 1 {
			t.Errorf("%v removed, want the one handshake", done)
		}
		if got := <-outcome; got.Fate != lab.OK || got.Endpoint != "p3" || time.Since(start) > 5*time.Second {
			t.Errorf("%s after %s, want p3 within one more SYN", got, time.Since(start))
		}
		if err := open.Echo(); err != nil { // its Service has gone
			t.Errorf("open connection: %v", err)
		}
	})
}

// TestNothingToRemove is field fault 28: an endpoint that never had a flow goes.
func TestNothingToRemove(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.pass(s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, p2, p3))
		if done := s.pass(s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, p3)); len(done) > 0 {
			t.Errorf("removed %v", done)
		}
	})
}

// TestDraining is field fault 32: when an endpoint that shuts down has left the
// set, UDP moves at once and open TCP stays; when it is the only one left, the
// table has it still, and it is served.
func TestDraining(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.UDP)
		s.serve(dataplane.TCP)
		build := func(endpoint string) *builder {
			return s.service(s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, endpoint), dataplane.ClusterIP, vip, dataplane.TCP, endpoint)
		}
		c := s.client(s.Pod(1), vip, 4000)
		s.pass(build(p2))
		c.want("p2")
		open := lab.Open(s.Pod(1), s.at(vip))
		if done := s.pass(build(p3)); len(done) != 1 {
			t.Errorf("removed %v, want the one UDP flow", done)
		}
		c.want("p3")
		if err := open.Echo(); err != nil {
			t.Error(err)
		}
		s.pass(build(p2))
		c.want("p2")
	})
}

// TestServiceMoves proves that the flows of a Service that is deleted go, also
// when it comes back elsewhere and its address is another's.
func TestServiceMoves(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.UDP)
		old, now := s.client(s.Pod(1), vip, 4000), s.client(s.Pod(1), otherVIP, 4000)
		s.pass(s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, p2))
		old.want("p2")
		moved := s.service(newTable(), dataplane.ClusterIP, otherVIP, dataplane.UDP, p2)
		s.rules(moved.Table)
		old.want("p2") // the fault
		s.clean(moved.Table)
		old.want("TIMEOUT")
		now.want("p2")
		s.pass(s.service(moved, dataplane.ClusterIP, vip, dataplane.UDP, p3))
		old.want("p3")
		now.want("p2")
		s.pass(newTable())
		old.want("TIMEOUT")
		now.want("TIMEOUT")
	})
}

// TestRemovalSurvives proves that a pass that ended between rules and removal is
// made good by another process, which knows no earlier table; and that a restart
// removes nothing that is right.
func TestRemovalSurvives(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.UDP)
		build := func(endpoint string) *builder {
			return s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, endpoint)
		}
		inside, outside := s.client(s.Pod(1), vip, 4000), s.client(s.Pod(1), external, 4000)
		s.pass(s.service(build(p2), dataplane.ExternalIP, external, dataplane.UDP, p2))
		inside.want("p2")
		outside.want("p2")
		restart := func() { s.cleaner = New(s.cleaner.config) }
		restart()
		for _, c := range s.pass(s.service(build(p2), dataplane.ExternalIP, external, dataplane.UDP, p2)) {
			t.Errorf("after a restart: %s", c)
		}
		s.rules(build(p3).Table) // the external address has gone too; here the pass ends
		inside.want("p2")
		outside.want("p2")
		restart()
		if done := s.pass(build(p3)); len(done) != 2 {
			t.Errorf("removed %v, want two flows", done)
		}
		inside.want("p3")
		outside.want("TIMEOUT")
	})
}

// TestSourceClasses proves that a flow is judged by where it comes from: when an
// endpoint is left to the node's own flows, those from outside move.
func TestSourceClasses(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.UDP)
		node, outside := s.client(s.Node, external, 4000), s.client(s.Outside, external, 4001)
		s.pass(s.service(newTable(), dataplane.ExternalIP, external, dataplane.UDP, p2))
		node.want("p2")
		outside.want("p2")
		split := s.service(newTable(), dataplane.ExternalIP, external, dataplane.UDP, p2)
		other := split.set("for those outside", dataplane.UDP, s.at(p3).String())
		other.Masquerade = true
		split.Frontends[0].Routes[dataplane.FromOutside] = other
		if done := s.pass(split); len(done) != 1 {
			t.Errorf("removed %v, want the flow from outside", done)
		}
		node.want("p2")
		outside.want("p3")
	})
}
