package nftables

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestNothingLost proves that no connection fails, or has to be tried again,
// while endpoints of its Service come and go as fast as they can.
func TestNothingLost(t *testing.T) {
	const connections = 10000
	l := newLab(t)
	sides := make([]dataplane.Table, 2)
	for i, pods := range [][]*lab.Host{l.Pods, l.Pods[:2]} {
		sides[i].Node = tables.Node()
		tables.Service(t, &sides[i], "default/web", "10.96.0.10:80", dataplane.TCP, pods...)
	}
	for _, p := range l.Pods {
		p.Serve(dataplane.TCP, 8080)
	}
	b := New(Config{})
	l.Node.Do(func() { converge(t, b, sides[0]) })
	var stop atomic.Bool
	var changes int
	var wg sync.WaitGroup
	wg.Go(func() {
		l.Node.Do(func() {
			for ; !stop.Load(); changes++ {
				p, err := b.Plan(t.Context(), sides[(changes+1)%2])
				if err == nil {
					err = p.Apply(t.Context())
				}
				if err != nil {
					t.Errorf("change %d: %v", changes, err)
					return
				}
			}
		})
	})
	got := lab.ProbeMany(l.Pod(1), dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), connections)
	stop.Store(true)
	wg.Wait()
	if got.Fates[lab.OK] != connections || got.Slowest > 700*time.Millisecond || changes < 10 {
		t.Errorf("%d changes, fates %v, slowest %v, first failure %v", changes, got.Fates, got.Slowest, got.Failure)
	}
	t.Logf("%d changes under %d connections in %v, slowest %v", changes, connections, got.Took, got.Slowest)
}
