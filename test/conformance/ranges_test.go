package conformance

import (
	"net/netip"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// TestNoPodRange proves that in a family without a Pod range nobody's source is
// rewritten at a ClusterIP, on every backend; and that this says nothing of the
// other family.
func TestNoPodRange(t *testing.T) {
	onBackends(t, 2, func(t *testing.T, s *stage, _ backend) {
		s.Pod(2).Serve(dataplane.TCP, 8080)
		s.p.node.PodRanges = lab.PodRanges()[1:] // IPv6
		s.program("p2 app=web", web)
		for _, vip := range vips(10, true) {
			for _, from := range []*lab.Host{s.Pod(1), s.Node, s.Outside} {
				out := lab.Probe(from, dataplane.TCP, netip.AddrPortFrom(vip, 80), lab.Options{})
				// The endpoint sees the node, or whoever asked.
				seen, what := !out.Masqueraded(), "its own source"
				if vip.Is6() && from != s.Pod(1) {
					seen, what = s.Node.Owns(out.Peer.Addr()), "a source of the node"
				}
				if out.Fate != lab.OK || !seen {
					t.Errorf("from %s to %s: %s, want OK with %s", from.Name, vip, out, what)
				}
			}
		}
	})
}
