package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// target is what the kernel is to hold for one family. The routes follow from
// the set of addresses: each has one.
type target struct {
	family  dataplane.Family
	sets    [setKinds]members
	servers []virtualServer
	rules   xtables.Ruleset
	// serviceRanges are those of the family.
	serviceRanges []netip.Prefix
	leftOut       []leftOut
	// known are the frontends of the table, served or not.
	known map[serverID]bool
	// partial: it is the part that a change touches of one that is wanted.
	partial bool
	// drainLimit is how long a real server may drain; none does if it is zero.
	drainLimit time.Duration
}

// leftOut is a frontend that cannot be served, and why.
type leftOut struct {
	object, service, reason string
}

// wanted reports whether the family has anything to do: a node without IPv6
// Services needs no IPv6 rules.
func (t target) wanted() bool {
	return t.partial || len(t.servers)+len(t.sets[addresses])+len(t.serviceRanges) > 0
}

// newTarget works out the target of one family. The table may have both.
func newTarget(table dataplane.Table, family dataplane.Family, scheduler string) target {
	part := table.ForFamily(family)
	t := newPart(part, family, scheduler)
	t.rules = xtables.Ruleset{Family: family}
	if t.wanted() {
		t.rules = ruleset(family, part.Node)
	}
	return t
}

// newPart works out what the frontends of one family want, without the rules,
// which all have in common.
func newPart(part dataplane.Table, family dataplane.Family, scheduler string) target {
	t := target{family: family, serviceRanges: part.Node.ServiceRanges}
	for k := range t.sets {
		t.sets[k] = members{}
	}
	t.known = make(map[serverID]bool, len(part.Frontends))
	for _, fe := range part.Frontends {
		t.known[serverID{Key: fe.Key}] = true
		t.add(part, fe, scheduler)
	}
	return t
}

func (t *target) add(table dataplane.Table, fe dataplane.Frontend, scheduler string) {
	if reason := unserved(fe); reason != "" {
		t.leftOut = append(t.leftOut, leftOut{"frontend " + fe.Key.String(), fe.Service, reason})
		return
	}
	// One virtual server serves all source classes alike; see the package comment.
	route := fe.Routes[dataplane.FromPod]
	// The ports of a Service share its address.
	service, _, _ := strings.Cut(fe.Service, ":")
	t.sets[addresses][entry{addr: fe.Addr}] = service
	switch route.Verdict {
	case dataplane.Refuse:
		// No virtual server and not in set services: the rules refuse it.
		return
	case dataplane.Drop:
		t.sets[dropped][keyEntry(fe.Key)] = fe.Service
		return
	}
	set, ok := table.Set(route.Set)
	if !ok {
		t.leftOut = append(t.leftOut, leftOut{"frontend " + fe.Key.String(), fe.Service,
			fmt.Sprintf("its endpoint set %q is not in the table", route.Set)})
		return
	}
	t.serve(fe, set, scheduler)
}

// serve adds a frontend that forwards to a set.
func (t *target) serve(fe dataplane.Frontend, set dataplane.EndpointSet, scheduler string) {
	t.servers = append(t.servers, newServer(fe, set, scheduler))
	t.sets[services][keyEntry(fe.Key)] = fe.Service
	if !fe.Routes[dataplane.FromOutside].Masquerade {
		t.sets[kept][keyEntry(fe.Key)] = fe.Service
	}
	if fe.Routes[dataplane.FromPod].Masquerade {
		t.sets[masqueraded][keyEntry(fe.Key)] = fe.Service
	}
	for _, ep := range set.Endpoints {
		if ep.Local {
			a := ep.Addr.Addr()
			t.sets[hairpin][entry{addr: a, protocol: set.Protocol, port: ep.Addr.Port(), source: a}] = set.Service
		}
	}
}

// unserved says why this version does not serve a frontend; empty if it does.
func unserved(fe dataplane.Frontend) string {
	switch {
	case fe.Addr.IsUnspecified():
		return fmt.Sprintf("kind %s is not implemented by backend ipvs yet; use another backend", fe.Kind)
	case fe.Allowed != nil:
		return "source ranges are not implemented by backend ipvs yet; use another backend"
	}
	return ""
}

// yield takes out of the target every address on which somebody else already
// has a virtual server, and reports what stood on it. Ownership goes by address,
// so an address is wholly ours or not at all. In the ranges of Services nobody
// else has business: there we take over.
func (t target) yield(have observed) target {
	foreign := map[netip.Addr]virtualServer{}
	for k, v := range have.servers {
		if !have.owns(k) {
			foreign[k.Addr] = v
		}
	}
	out := t
	out.leftOut = slices.Clone(t.leftOut)
	out.servers = slices.DeleteFunc(slices.Clone(t.servers), func(v virtualServer) bool {
		_, taken := foreign[v.Addr]
		return taken
	})
	for k, m := range t.sets {
		out.sets[k] = members{}
		for e, service := range m {
			v, taken := foreign[e.addr]
			switch {
			case !taken || setKind(k) == hairpin:
				out.sets[k][e] = service
			case setKind(k) == addresses:
				out.leftOut = append(out.leftOut, leftOut{"address " + e.addr.String(), service, fmt.Sprintf(
					"%s is there and is not ours, so the address is left alone; delete it (ipvsadm %s) or give the Service another address",
					v.object(), v.line("D"))})
			}
		}
	}
	return out
}
