package nftables

import (
	"net/netip"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// probeSets and probeChains use every kind of set and expression once.
func probeSets() []setDelta {
	var out []setDelta
	for _, s := range []set{
		{name: frontendsSet, kind: frontendKeys}, {name: clusterIPsSet, kind: addresses}, {name: hairpinSet, kind: pairs},
		{name: allowedSet, kind: ranges}, {name: endpointsMap, kind: endpointRows}, {name: stickyMap, kind: chainRows},
		{name: "chains", kind: frontendChains}, {name: "clients", kind: clients},
	} {
		out = append(out, setDelta{set: s, isNew: true})
	}
	return out
}

func probeChains(f dataplane.Family) []chainDelta {
	to := netip.AddrPortFrom(netip.IPv4Unspecified(), 1)
	if f == dataplane.IPv6 {
		to = netip.AddrPortFrom(netip.IPv6Unspecified(), 1)
	}
	one := pick{count: 1}
	services := chain{name: servicesChain, rules: []rule{
		{dialled(frontendsSet), isProtocol(dataplane.TCP), reset{}}, {unreachable{}},
		{fromLocal{}, mark(1)}, {remember{"clients", time.Second}}, {continueAt("chains")}, {continueBy{one, stickyMap}},
		{deliverBy{one, endpointsMap}}, {deliver(to)},
	}}
	all := []chain{services, base(preroutingChain, atPrerouting, rule{jump(servicesChain)}), base(outputChain, atOutput, rule{jump(servicesChain)}),
		base(postroutingChain, atPostrouting, rule{translated{}, marked(1), unmark(1), masquerade{}}),
		base(inputChain, atInput, rule{invalid{}, drop{}}), base(forwardChain, atForward, rule{invalid{}, drop{}})}
	var out []chainDelta
	for _, c := range all {
		out = append(out, chainDelta{chain: c, isNew: true})
	}
	return out
}
