package dataplane_test

import (
	"net/netip"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

func TestDialled(t *testing.T) {
	addr := netip.MustParseAddr
	key := func(a string, port uint16) dataplane.Key {
		return dataplane.Key{Addr: addr(a), Protocol: dataplane.TCP, Port: port}
	}
	table := dataplane.Table{
		Node: dataplane.Node{Addrs: []netip.Addr{addr("192.0.2.1"), addr("fd00::1")}},
		Frontends: []dataplane.Frontend{
			{Key: key("0.0.0.0", 30080), Kind: dataplane.NodePort, Service: "d/v4"},
			{Key: key("::", 30080), Kind: dataplane.NodePort, Service: "d/v6"},
			{Key: key("192.0.2.1", 30081), Kind: dataplane.ExternalIP, Service: "d/very"},
			{Key: key("0.0.0.0", 30081), Kind: dataplane.NodePort, Service: "d/any"},
			{Key: key("10.96.0.1", 80), Service: "d/vip"},
		},
	}
	table.Sort()
	for _, tc := range []struct {
		at   string
		port uint16
		want string
	}{
		{"10.96.0.1", 80, "d/vip"}, {"10.96.0.1", 30080, ""}, {"192.0.2.1", 30080, "d/v4"}, {"fd00::1", 30080, "d/v6"},
		{"192.0.2.1", 30081, "d/very"}, {"192.0.2.2", 30080, ""},
	} {
		if fe, ok := table.Dialled(dataplane.Packet{Key: key(tc.at, tc.port)}); fe.Service != tc.want || ok != (tc.want != "") {
			t.Errorf("%s:%d is %q, %t; want %q", tc.at, tc.port, fe.Service, ok, tc.want)
		}
	}
}

func TestClass(t *testing.T) {
	ranges := dataplane.Node{PodRanges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
	links := dataplane.Node{PodRanges: ranges.PodRanges, PodInterfaces: []string{"br0", "cali+"}}
	own := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.244.0.1")}
	for _, tc := range []struct {
		node    dataplane.Node
		src, in string
		want    dataplane.Source
	}{
		{ranges, "10.244.3.3", "eth0", dataplane.FromPod},
		{ranges, "10.244.0.1", "", dataplane.FromPod}, // the range is asked first
		{ranges, "192.0.2.1", "", dataplane.FromNode},
		{ranges, "", "", dataplane.FromNode},
		{ranges, "192.0.2.9", "eth0", dataplane.FromOutside},
		{links, "192.0.2.9", "cali7", dataplane.FromPod},
		{links, "192.0.2.9", "br0", dataplane.FromPod},
		{links, "10.244.3.3", "br00", dataplane.FromOutside},
		{links, "10.244.0.1", "", dataplane.FromNode},
	} {
		src, _ := netip.ParseAddr(tc.src)
		if got := tc.node.Class(dataplane.Packet{Src: src, In: tc.in, Own: own}); got != tc.want {
			t.Errorf("from %q by %q: %s, want %s", tc.src, tc.in, got, tc.want)
		}
	}
}

// TestTrace proves that a rule is one step and an end one outcome, however many
// parts of a packet come there.
func TestTrace(t *testing.T) {
	var tr dataplane.Trace
	to := netip.MustParseAddrPort("10.244.0.5:80")
	for range 2 {
		tr.Take(dataplane.Step{Hook: "h", Chain: "c", Rule: "r", Share: 0.25})
		tr.End(dataplane.Outcome{Fate: dataplane.Delivered, Endpoint: to, Share: 0.25})
		tr.Note("once")
	}
	if f, ok := tr.Answer(); f != dataplane.Delivered || !ok {
		t.Errorf("answer %s %t", f, ok)
	}
	tr.End(dataplane.Outcome{Fate: dataplane.Passed, Share: 0.5})
	tr.Sort()
	if len(tr.Steps) != 1 || tr.Steps[0].Share != 0.5 || len(tr.Outcomes) != 2 || tr.Outcomes[0].Fate != dataplane.Passed || tr.Outcomes[1].Share != 0.5 || len(tr.Notes) != 1 {
		t.Errorf("%+v", tr)
	}
	if _, ok := tr.Answer(); ok {
		t.Error("two fates are no answer")
	}
}
