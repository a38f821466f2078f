package conntrack

import (
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// spares reports whether a change leaves right whatever flow was right before it:
// it opens and shuts no frontend, lets no source in or out, and takes no endpoint
// from anybody. Most changes of a rollout are so: an endpoint more. Then the
// kernel need not be asked for its flows, which takes it some milliseconds however
// few they are. Pure.
func spares(d dataplane.Delta) bool {
	return slices.EqualFunc(d.Before.Frontends, d.After.Frontends, func(before, after dataplane.Frontend) bool {
		return before.Key == after.Key && slices.Equal(before.Allowed, after.Allowed) && (before.Allowed == nil) == (after.Allowed == nil) &&
			sparesRoutes(d, before, after)
	})
}

func sparesRoutes(d dataplane.Delta, before, after dataplane.Frontend) bool {
	for class, was := range before.Routes {
		is := after.Routes[class]
		if was.Verdict != is.Verdict {
			return false
		}
		if was.Verdict == dataplane.Forward && !keepsAll(d.Before, was.Set, d.After, is.Set) {
			return false
		}
	}
	return true
}

// keepsAll reports whether a set has all endpoints of an earlier one.
func keepsAll(before dataplane.Table, was string, after dataplane.Table, is string) bool {
	old, knownOld := before.Set(was)
	now, knownNow := after.Set(is)
	return knownOld && knownNow && !slices.ContainsFunc(old.Endpoints, func(e dataplane.Endpoint) bool {
		_, found := slices.BinarySearchFunc(now.Endpoints, e.Addr, func(e dataplane.Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
		return !found
	})
}
