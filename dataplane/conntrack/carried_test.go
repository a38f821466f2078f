package conntrack

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

// The list of IPVS as the kernel writes it.
const listedConnections = `Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
UDP 0AF4000B 0FA0 0A600035 0035 0AF4000C 1F90 UDP             297
TCP 0AF4000B 9C41 0A60000A 0050 0AF4000D 1F90 ESTABLISHED     895
TCP 0AF4000B 0000 0A60000A 0050 0AF4000E 1F90 NONE            100
UDP fd00:0010:0244:0000:0000:0000:0000:000b 0FA0 fd00:0010:0096:0000:0000:0000:0000:0035 0035 fd00:0010:0244:0000:0000:0000:0000:000c 1F90 UDP             297
`

// What IPVS carries is read from its list: connections whose endpoint is a real
// server.
func TestParseCarried(t *testing.T) {
	want := map[Carried]bool{
		flow("udp 10.244.0.11:4000 10.96.0.53:53 10.244.0.12:8080").carried():                 true,
		flow("udp [fd00:10:244::b]:4000 [fd00:10:96::35]:53 [fd00:10:244::c]:8080").carried(): true,
	}
	servers := map[netip.AddrPort]bool{addrPort("10.244.0.12:8080"): true, addrPort("[fd00:10:244::c]:8080"): true}
	if got := parseCarried(listedConnections, servers); !maps.Equal(got, want) {
		t.Errorf("carried are %v, want %v", got, want)
	}
	for _, text := range []string{"", "\n", "UDP\n", "UDP x x x x x x x x\n  -> :\n"} {
		if got := parseCarried(text, nil); len(got) != 0 {
			t.Errorf("of %q: %v", text, got)
		}
	}
}

// A flow that IPVS translated is right under another backend while IPVS carries it
// to an endpoint that a new flow could get, and stale otherwise.
func TestCarriedIsRight(t *testing.T) {
	b := newTable()
	b.frontend(dataplane.ClusterIP, "10.96.0.53:53", dataplane.UDP, b.set("dns", dataplane.UDP, "10.244.0.5:53"))
	carried := flow("udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53 ipvs")
	lost := flow("udp 10.244.0.2:4001 10.96.0.53:53 10.244.0.5:53 ipvs")
	gone := flow("udp 10.244.0.2:4002 10.96.0.53:53 10.244.0.9:53 ipvs")
	answered := flow("tcp 10.244.0.2:4003 10.96.0.10:80 10.244.0.5:8080 ipvs")
	cut := flow("tcp 10.244.0.2:4004 10.96.0.10:80 10.244.0.5:8080 ipvs")
	b.frontend(dataplane.ClusterIP, "10.96.0.10:80", dataplane.TCP, b.set("web", dataplane.TCP, "10.244.0.5:8080"))
	w := Wanted{Table: b.Table, Carried: map[Carried]bool{carried.carried(): true, gone.carried(): true, answered.carried(): true}}
	var stale []string
	for _, f := range Stale(w, []Flow{carried, lost, gone, answered, cut}) {
		stale = append(stale, f.Flow.String())
	}
	if want := []string{lost.String(), gone.String(), cut.String()}; !slices.Equal(stale, want) {
		t.Errorf("stale are %q, want %q", stale, want)
	}
}
