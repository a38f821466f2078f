package ipvs

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

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

// policy is a rule of the routing policy: what bears the mark looks into our table;
// or what is for one frontend, where no rule of ours sets marks any more.
type policy struct {
	mark, mask uint32
	to         dataplane.Key
}

// line is the rule as ip(8) takes it, after "ip rule add".
func (p policy) line() string {
	var match []string
	if p.to.Addr.IsValid() {
		match = append(match, "to "+p.to.Addr.String())
	}
	if p.mask != 0 {
		match = append(match, fmt.Sprintf("fwmark %#x/%#x", p.mark, p.mask))
	}
	if p.to.Protocol != 0 {
		match = append(match, fmt.Sprintf("ipproto %s dport %d", p.to.Protocol, p.to.Port))
	}
	return fmt.Sprintf("priority %d %s lookup %d", inboundPriority, strings.Join(match, " "), inboundTable)
}

// policies are the rules that the target wants. A part of one says nothing of them.
func (t target) policies() []policy {
	switch {
	case t.partial || !t.has(brought):
		return nil
	case t.leaving:
		return t.policiesByKey()
	}
	value, mask := marking{t.node.Marks()}.tagged()
	return []policy{{mark: value, mask: mask}}
}

// policiesByKey are those for the frontends that are brought in, one each.
func (t target) policiesByKey() []policy {
	var out []policy
	for _, e := range slices.SortedFunc(maps.Keys(t.sets[brought]), entry.compare) {
		out = append(out, policy{to: e.key()})
	}
	return out
}

// raiseInbound adds the way in for what will be marked.
func (s *steps) raiseInbound(want target, have observed) {
	for _, e := range slices.SortedFunc(maps.Keys(want.sets[arrivals]), entry.compare) {
		a := e.addr
		held, exists := have.inbound[a]
		c := dataplane.Change{Op: dataplane.Add, Object: "inbound route " + a.String(), For: want.sets[arrivals][e],
			Reason: fmt.Sprintf("address %s missing in table %d", a, inboundTable), Lines: []string{"+ " + inboundLine(a)}}
		switch {
		case !exists:
		case !held.loopback:
			c.Op, c.Reason = dataplane.Update, "leads to another link, want lo"
		case want.leaving && !have.looksIn(a):
			// The node's own packets look into the table too now. They are to leave as
			// they would without it.
			c.Op, c.Reason = dataplane.Update, "no source for what the node sends"
		default:
			continue
		}
		s.add(raiseRoute{addr: a, exists: exists, table: inboundTable, outward: want.leaving}, c)
	}
	for _, p := range want.policies() {
		if !slices.Contains(have.policies, p) {
			s.add(changePolicy{have.family, p, true}, dataplane.Change{Op: dataplane.Add, Object: "routing policy " + p.line(),
				Reason: "rule missing", Lines: []string{"+ rule add " + p.line()}})
		}
	}
}

// looksIn reports whether a rule for an address alone leads to our table.
func (o observed) looksIn(a netip.Addr) bool {
	return slices.ContainsFunc(o.policies, func(p policy) bool { return p.to.Addr == a })
}

// dropInbound takes away what raiseInbound added and nobody wants any more.
func (s *steps) dropInbound(want target, have observed) {
	s.dropPolicies(want, have, false)
	for _, a := range slices.SortedFunc(maps.Keys(have.inbound), netip.Addr.Compare) {
		if _, ok := want.sets[arrivals][entry{addr: a}]; !ok {
			s.add(dropRoute{addr: a, priority: have.inbound[a].priority, table: inboundTable}, dataplane.Change{Op: dataplane.Remove,
				Object: "inbound route " + a.String(), Reason: "address not wanted", Lines: []string{"- " + inboundLine(a)}})
		}
	}
}

// dropPolicies takes away the rules that nobody wants: those by mark, or by key. The
// latter have done what they can only when those are there and packets get marks.
func (s *steps) dropPolicies(want target, have observed, byKey bool) {
	for _, p := range have.policies {
		if p.to.Addr.IsValid() == byKey && !slices.Contains(want.policies(), p) {
			s.add(changePolicy{have.family, p, false}, dataplane.Change{Op: dataplane.Remove, Object: "routing policy " + p.line(),
				Reason: "rule not wanted", Lines: []string{"- rule add " + p.line()}})
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
