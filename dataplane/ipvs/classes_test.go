package ipvs

import (
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
)

// fullTarget needs every set that there is.
func fullTarget(f dataplane.Family) target {
	n := dataplane.Node{PodRanges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
	if f == dataplane.IPv6 {
		n.PodRanges[0] = netip.MustParsePrefix("fd00:10:244::/56")
	}
	t := target{family: f, node: n, classes: classesOf(n)}
	for k := range t.sets {
		t.sets[k] = members{entry{addr: unspecified(f)}: ""}
	}
	return t
}
