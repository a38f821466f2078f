package conformance

import (
	"net/netip"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// TestStraySegments proves that a segment outside of the window, which connection
// tracking takes for none of its connection (row E11), resets no connection:
// neither one of the endpoint, which would reach the client with the endpoint's
// own address, nor one of the client, which would reach nobody or the node.
func TestStraySegments(t *testing.T) {
	onDoors(t, 3, "", func(t *testing.T, s *stage, _ backend) {
		s.Pod(2).Serve(dataplane.TCP, 8080)
		s.program("p2 app=web", everyDoor)
		for _, at := range doorsOf() {
			s.stray(s.Pod(1), "eth0", at)
			s.stray(s.Outside, "lan0", at)
			s.stray(s.Node, lab.Bridge, at)
		}
	})
}

// stray opens a connection by a Service, sends stray segments both ways and looks
// whether the connection lives on.
func (s *stage) stray(client *lab.Host, link string, at netip.AddrPort) {
	s.t.Helper()
	near, far := client.Wire(link), s.Pod(2).Wire("eth0")
	conn := lab.Open(client, at)
	if err := conn.Echo(); err != nil {
		s.t.Fatalf("%s to %s: %v", client.Name, at, err)
	}
	endpoint := netip.AddrPortFrom(s.Pod(2).Addr(dataplane.FamilyOf(at.Addr())), 8080)
	far.Stray(endpoint, conn.Outcome.Peer)
	for range 5 {
		if err := conn.Echo(); err != nil {
			s.t.Errorf("%s to %s, after a stray segment of the endpoint: %v", client.Name, at, err)
			return
		}
	}
	if client != s.Node && near.Heard(endpoint, conn.Outcome.Source) {
		s.t.Errorf("%s has heard %s, and knows %s alone", client.Name, endpoint, at)
	}
	if client == s.Node {
		return // what the node itself sends on a link is not yet translated back
	}
	near.Stray(conn.Outcome.Source, at)
	for range 5 {
		if err := conn.Echo(); err != nil {
			s.t.Errorf("%s to %s, after a stray segment of the client: %v", client.Name, at, err)
			return
		}
	}
}
