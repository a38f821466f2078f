package nftables

import (
	"context"
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
// while endpoints of its Service come and go as fast as they can, by passes over
// the whole table and by changes of the one Service.
func TestNothingLost(t *testing.T) {
	for name, apply := range map[string]func(*churn) error{"passes": (*churn).pass, "changes": (*churn).change} {
		t.Run(name, func(t *testing.T) {
			const connections = 10000
			l := newLab(t)
			c := newChurn(t, l)
			l.Node.Do(func() {
				p, err := c.follower.Plan(t.Context(), c.sides[0])
				applied(t)(p, err)
			})
			var stop atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				l.Node.Do(func() {
					for c.changes = 0; !stop.Load(); c.changes++ {
						if err := apply(c); err != nil {
							t.Errorf("change %d: %v", c.changes, err)
							return
						}
					}
				})
			})
			got := lab.ProbeMany(l.Pod(1), dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), connections)
			stop.Store(true)
			wg.Wait()
			if got.Fates[lab.OK] != connections || got.Slowest > 700*time.Millisecond || c.changes < 10 {
				t.Errorf("%d changes, fates %v, slowest %v, first failure %v", c.changes, got.Fates, got.Slowest, got.Failure)
			}
			t.Logf("%d changes under %d connections in %v, slowest %v", c.changes, connections, got.Took, got.Slowest)
		})
	}
}

// churn leads a node to and fro between two tables of one Service.
type churn struct {
	ctx      context.Context
	sides    [2]dataplane.Table
	changes  int
	backend  *Backend
	follower *follower
}

// newChurn makes all Pods serve: one side has them all, the other two.
func newChurn(t *testing.T, l *lab.Lab) *churn {
	c := &churn{ctx: t.Context(), backend: New(Config{})}
	c.follower = c.backend.Follow().(*follower)
	t.Cleanup(func() { _ = c.follower.Close() })
	for i, pods := range [][]*lab.Host{l.Pods, l.Pods[:2]} {
		c.sides[i].Node = tables.Node()
		tables.Service(t, &c.sides[i], "default/web", "10.96.0.10:80", dataplane.TCP, pods...)
	}
	for _, p := range l.Pods {
		p.Serve(dataplane.TCP, 8080)
	}
	return c
}

func (c *churn) pass() error {
	return c.apply(c.backend.Plan(c.ctx, c.sides[(c.changes+1)%2]))
}

func (c *churn) change() error {
	return c.apply(c.follower.PlanChange(c.ctx, dataplane.Delta{Before: c.sides[c.changes%2], After: c.sides[(c.changes+1)%2]}))
}

func (c *churn) apply(p dataplane.Plan, err error) error {
	if err != nil {
		return err
	}
	return p.Apply(c.ctx)
}
