package ipvs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
)

// What nobody serves at an address that the node does not have is refused on its
// way through, where an ICMP error can be sent. TCP is told by a reset anywhere,
// and what drains needs the way in.
func TestRefusedIsNotBroughtIn(t *testing.T) {
	tcp, udp, served := frontend("198.51.100.7", 80), frontend("198.51.100.7", 53), frontend("198.51.100.8", 53)
	udp.Protocol, served.Protocol = dataplane.UDP, dataplane.UDP
	for _, fe := range []*dataplane.Frontend{&tcp, &udp} {
		for i := range fe.Routes {
			fe.Routes[i] = dataplane.Route{Verdict: dataplane.Refuse}
		}
	}
	wanted := table(tcp, udp, served)
	for i := range wanted.Sets {
		wanted.Sets[i].Protocol = dataplane.UDP
	}
	got := newTarget(wanted, dataplane.IPv4, "rr")
	if diff := cmp.Diff([]string{"198.51.100.7,tcp:80", "198.51.100.8,udp:53"}, names(got.sets[brought])); diff != "" {
		t.Errorf("brought in (-want +got):\n%s", diff)
	}
	if n := len(got.sets[ports]); n != 3 {
		t.Errorf("%d ports are known for ours, want 3", n)
	}
}
