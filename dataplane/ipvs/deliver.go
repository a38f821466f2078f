package ipvs

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// IPVS sees packets that come in only where the node takes them for its own. An
// address in a range of Services is made local as a whole. Any other, an external
// address or a load balancer's, may be another host's: only the ports of its
// frontends are ours. So packets to them get a mark (set brought), a rule of the
// routing policy sends what is marked to a table of ours, and there the address is
// local. All else takes the way that it always took. The node's own packets need no
// such way: IPVS sees them before they leave.

const (
	// inboundTable is the number of our routing table.
	inboundTable = 8484
	// inboundPriority is the place of our rule: behind that for table local.
	inboundPriority = 84
)

// policy is a rule of the routing policy: what bears the mark looks into our table.
type policy struct{ mark, mask uint32 }

// line is the rule as ip(8) takes it, after "ip rule add".
func (p policy) line() string {
	return fmt.Sprintf("priority %d fwmark %#x/%#x lookup %d", inboundPriority, p.mark, p.mask, inboundTable)
}

// policies are the rules that the target wants. A part of one says nothing of them.
func (t target) policies() []policy {
	if t.partial || !t.has(brought) {
		return nil
	}
	value, mask := marking{t.node.Marks()}.tagged()
	return []policy{{value, mask}}
}

// raiseInbound adds the way in for what will be marked.
func (s *steps) raiseInbound(want target, have observed) {
	for _, e := range slices.SortedFunc(maps.Keys(want.sets[arrivals]), entry.compare) {
		a := e.addr
		held, exists := have.inbound[a]
		c := dataplane.Change{Op: dataplane.Add, Object: "inbound route " + a.String(), For: want.sets[arrivals][e],
			Reason: fmt.Sprintf("address %s missing in table %d", a, inboundTable), Lines: []string{"+ " + inboundLine(a)}}
		if exists && held.loopback {
			continue
		} else if exists {
			c.Op, c.Reason = dataplane.Update, "leads to another link, want lo"
		}
		s.add(raiseRoute{addr: a, exists: exists, table: inboundTable}, c)
	}
	for _, p := range want.policies() {
		if !slices.Contains(have.policies, p) {
			s.add(changePolicy{have.family, p, true}, dataplane.Change{Op: dataplane.Add, Object: "routing policy " + p.line(),
				Reason: "rule missing", Lines: []string{"+ rule add " + p.line()}})
		}
	}
}

// dropInbound takes away what raiseInbound added and nobody wants any more.
func (s *steps) dropInbound(want target, have observed) {
	for _, p := range have.policies {
		if !slices.Contains(want.policies(), p) {
			s.add(changePolicy{have.family, p, false}, dataplane.Change{Op: dataplane.Remove, Object: "routing policy " + p.line(),
				Reason: "rule not wanted", Lines: []string{"- rule add " + p.line()}})
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(have.inbound), netip.Addr.Compare) {
		if _, ok := want.sets[arrivals][entry{addr: a}]; !ok {
			s.add(dropRoute{addr: a, priority: have.inbound[a].priority, table: inboundTable}, dataplane.Change{Op: dataplane.Remove,
				Object: "inbound route " + a.String(), Reason: "address not wanted", Lines: []string{"- " + inboundLine(a)}})
		}
	}
}

// inboundLine is the route as ip(8) takes it, after "ip route add".
func inboundLine(a netip.Addr) string {
	return fmt.Sprintf("local %s dev lo table %d proto %d", a, inboundTable, routeProtocol)
}

// changePolicy adds a rule of the routing policy, or deletes it.
type changePolicy struct {
	family dataplane.Family
	policy policy
	add    bool
}

func (a changePolicy) do(_ context.Context, k *kernel) error {
	if err := k.changePolicy(a); err != nil {
		return fmt.Errorf("ip rule %s: %w", a.policy.line(), err)
	}
	return nil
}
