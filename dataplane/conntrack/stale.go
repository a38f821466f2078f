package conntrack

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Wanted is what decides whether a flow is right.
type Wanted struct {
	Table dataplane.Table
	// View, when not nil, has the frontends and sets instead of Table, of which
	// only the Node counts then.
	View dataplane.View
	// Virtual: IPVS does the translation. Otherwise flows that it translated
	// under an earlier table are stale, unless they are among Carried: nobody
	// translates them any more.
	Virtual bool
	// Carried are the flows that IPVS still carries to their end.
	Carried map[Carried]bool
	// Local are the addresses of the node: a source among them, and in no Pod
	// range, is the node's.
	Local []netip.Addr
	// Former are destinations that were frontends under earlier tables, NodePorts
	// as the addresses that they answered on.
	Former []dataplane.Key
}

// Stale returns the flows that are not what a new flow with the same source and
// destination would become, in the order given. Flows of TCP and SCTP are only
// ever stale before they have been answered, or when IPVS has cut them, so that they
// end at once instead of hanging. Flows to destinations that are no
// frontend, were none and lie in no Service range are never stale: they are not
// ours. The cost is that of the flows, by the logarithm of the frontends and
// endpoints. Pure.
func Stale(w Wanted, flows []Flow) []Finding {
	if len(flows) == 0 {
		return nil
	}
	j := newJudge(w)
	var out []Finding
	for _, f := range flows {
		if f.Protocol != dataplane.UDP && !f.Opening && !w.lost(f) {
			continue
		}
		if service, reason := j.judge(f); reason != "" {
			out = append(out, Finding{Flow: f, Service: service, Reason: reason})
		}
	}
	return out
}

// judge is Wanted, with its lists made ready for look-ups.
type judge struct {
	Wanted
	view        dataplane.View
	local, node map[netip.Addr]bool
	former      map[dataplane.Key]bool
}

func newJudge(w Wanted) judge {
	j := judge{Wanted: w, view: w.View, local: set(w.Local), node: set(w.Table.Node.Addrs), former: set(w.Former)}
	if j.view == nil {
		j.view = w.Table
	}
	return j
}

func set[T comparable](list []T) map[T]bool {
	m := make(map[T]bool, len(list))
	for _, v := range list {
		m[v] = true
	}
	return m
}

// judge returns why a flow is stale; empty for one that is right or not ours.
func (j judge) judge(f Flow) (service, reason string) {
	to := f.Original.Destination
	key := dataplane.Key{Addr: to.Addr(), Protocol: f.Protocol, Port: to.Port()}
	if fe, ok := j.frontend(key); ok {
		return fe.Service, j.atFrontend(fe, f)
	}
	switch {
	case slices.ContainsFunc(j.Table.Node.ServiceRanges, func(r netip.Prefix) bool { return r.Contains(key.Addr) }):
		return "", "no Service has this address and port"
	case f.Translated() && j.former[key]:
		return "", "no Service has this address and port any more"
	}
	return "", ""
}

// frontend finds what answers at a destination: the frontend with that very
// address, else a NodePort where the address is one that those answer on.
func (j judge) frontend(k dataplane.Key) (dataplane.Frontend, bool) {
	if k.Addr.IsUnspecified() {
		return dataplane.Frontend{}, false
	}
	fe, ok := j.view.Frontend(k)
	if !ok && j.node[k.Addr] {
		k.Addr = unspecified(dataplane.FamilyOf(k.Addr))
		fe, ok = j.view.Frontend(k)
	}
	return fe, ok
}

func unspecified(f dataplane.Family) netip.Addr {
	if f == dataplane.IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// atFrontend returns why a flow to a frontend is stale.
func (j judge) atFrontend(fe dataplane.Frontend, f Flow) string {
	from := f.Original.Source.Addr()
	if fe.Allowed != nil && !slices.ContainsFunc(fe.Allowed, func(r netip.Prefix) bool { return r.Contains(from) }) {
		return "its source may not use this frontend"
	}
	class := j.class(from)
	switch route := fe.Routes[class]; route.Verdict {
	case dataplane.Refuse:
		return "no endpoint is usable: new flows are refused"
	case dataplane.Drop:
		return fmt.Sprintf("no endpoint is for flows from %s: new ones are dropped", class)
	case dataplane.Forward:
		return j.atSet(route.Set, class, f)
	}
	return ""
}

// atSet returns why a flow that is to go to an endpoint of a set is stale.
func (j judge) atSet(name string, class dataplane.Source, f Flow) string {
	s, ok := j.view.Set(name)
	if !ok {
		return "" // no table has such a route; a mistake must not cost flows
	}
	at, listed := slices.BinarySearchFunc(s.Endpoints, f.Endpoint(), func(e dataplane.Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
	switch {
	case listed && !j.lost(f):
		return ""
	case listed:
		return "IPVS translated it, and does so no more"
	case !f.Translated():
		return "it passes the frontend by: it is older than the frontend's rules"
	case portMoved(s.Endpoints, at, f.Endpoint()):
		return fmt.Sprintf("%s has another port as endpoint now", f.Endpoint().Addr())
	}
	return fmt.Sprintf("%s is no endpoint for flows from %s", f.Endpoint(), class)
}

// portMoved reports whether the address is an endpoint on another port. Those
// of one address stand together, where the missing one would.
func portMoved(endpoints []dataplane.Endpoint, at int, gone netip.AddrPort) bool {
	near := endpoints[max(at-1, 0):min(at+1, len(endpoints))]
	return slices.ContainsFunc(near, func(e dataplane.Endpoint) bool { return e.Addr.Addr() == gone.Addr() })
}

// class tells where a source is, as dataplane.Source says. Without a Pod range
// of its family every source counts as a Pod.
func (j judge) class(a netip.Addr) dataplane.Source {
	ranges := false
	for _, r := range j.Table.Node.PodRanges {
		if r.Contains(a) {
			return dataplane.FromPod
		}
		ranges = ranges || dataplane.FamilyOf(r.Addr()) == dataplane.FamilyOf(a)
	}
	switch {
	case !ranges:
		return dataplane.FromPod
	case a.IsLoopback() || j.local[a]:
		return dataplane.FromNode
	}
	return dataplane.FromOutside
}

// needsLocal reports whether some frontend treats the node's own flows otherwise
// than those from outside: only then have Wanted.Local to be known.
func needsLocal(t dataplane.Table) bool {
	return slices.ContainsFunc(t.Frontends, func(fe dataplane.Frontend) bool {
		node, outside := fe.Routes[dataplane.FromNode], fe.Routes[dataplane.FromOutside]
		return node.Verdict != outside.Verdict || node.Set != outside.Set
	})
}

// destinations lists the destinations of a table's frontends that lie in no
// Service range, in order: those that have to be remembered.
func destinations(t dataplane.Table) []dataplane.Key {
	var out []dataplane.Key
	add := func(k dataplane.Key) {
		if !slices.ContainsFunc(t.Node.ServiceRanges, func(r netip.Prefix) bool { return r.Contains(k.Addr) }) {
			out = append(out, k)
		}
	}
	for _, fe := range t.Frontends {
		if !fe.Addr.IsUnspecified() {
			add(fe.Key)
			continue
		}
		for _, a := range t.Node.Addrs {
			if k := fe.Key; dataplane.FamilyOf(a) == dataplane.FamilyOf(k.Addr) {
				k.Addr = a
				add(k)
			}
		}
	}
	return tidy(out)
}

// tidy sorts keys and leaves out doubles.
func tidy(keys []dataplane.Key) []dataplane.Key {
	slices.SortFunc(keys, dataplane.Key.Compare)
	return slices.Compact(keys)
}
