package ipvs_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// Each frontend has a counter, which counts what goes through it.
func TestCounters(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	n.Pod(2).Serve(dataplane.TCP, 8080)
	b := newTable()
	for f, vip := range vips() {
		b.add("default/web", vip, dataplane.TCP, 80, on(f, 8080, n.Pod(2))...)
	}
	b.add("default/idle", "10.96.0.11", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(2))...)
	b.add("default/none", "10.96.0.12", dataplane.TCP, 80)
	n.sync(b.Table)
	n.Node.Run("ipvsadm", "-A", "-t", "192.0.2.1:80", "-s", "rr") // of somebody else
	for range 3 {
		for _, vip := range vips() {
			lab.Probe(n.Pod(1), dataplane.TCP, netip.AddrPortFrom(netip.MustParseAddr(vip), 80), lab.Options{})
		}
	}
	keys := []dataplane.Key{key("10.96.0.10", dataplane.TCP, 80), key("10.96.0.11", dataplane.TCP, 80), key("fd00:10:96::10", dataplane.TCP, 80)}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got := n.counters()
		if len(got) != len(keys) || got[0].Key != keys[0] || got[1] != (dataplane.Counter{Key: keys[1]}) || got[2].Key != keys[2] {
			t.Fatalf("counters %+v, want those of %v", got, keys)
		}
		if served(got[0]) && served(got[2]) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after three connections: %+v", got)
		}
	}
}

// served reports whether three connections with some bytes show.
func served(c dataplane.Counter) bool {
	return c.Connections == 3 && c.PacketsIn >= 9 && c.PacketsOut >= 6 && c.BytesIn >= 9*40 && c.BytesOut >= 6*40
}

func (n *node) counters() (out []dataplane.Counter) {
	n.t.Helper()
	n.Node.Do(func() {
		var err error
		if out, err = n.backend.Counters(context.Background()); err != nil {
			n.t.Fatal(err)
		}
	})
	return out
}
