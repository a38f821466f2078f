package balance

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// near returns those of the ready endpoints that their hints give to the node.
// Hints for nodes are asked first, then hints for zones; each kind counts only
// when every ready endpoint has some and at least one of them names this node,
// or its zone. Otherwise hints are advice that cannot be followed, and all
// endpoints are near.
func near(node Node, ready []candidate) []candidate {
	if node.Name != "" {
		if some := hinted(ready, forNode(node.Name)); len(some) > 0 {
			return some
		}
	}
	if node.Zone != "" {
		if some := hinted(ready, forZone(node.Zone)); len(some) > 0 {
			return some
		}
	}
	return ready
}

// hint tells whether an endpoint has hints of a kind, and whether one names
// what is asked for.
type hint func(*discoveryv1.EndpointHints) (some, match bool)

func forNode(name string) hint {
	return func(h *discoveryv1.EndpointHints) (bool, bool) {
		return len(h.ForNodes) > 0, slices.Contains(h.ForNodes, discoveryv1.ForNode{Name: name})
	}
}

func forZone(name string) hint {
	return func(h *discoveryv1.EndpointHints) (bool, bool) {
		return len(h.ForZones) > 0, slices.Contains(h.ForZones, discoveryv1.ForZone{Name: name})
	}
}

// hinted returns the endpoints that match; none when one of all has no hint.
func hinted(all []candidate, ask hint) []candidate {
	var out []candidate
	for _, c := range all {
		if c.hints == nil {
			return nil
		}
		some, match := ask(c.hints)
		if !some {
			return nil
		}
		if match {
			out = append(out, c)
		}
	}
	return out
}

// compareHints orders hints, so that of two copies of an endpoint that differ
// in nothing else the same one is believed, whatever the order.
func compareHints(a, b *discoveryv1.EndpointHints) int {
	return slices.Compare(hintWords(a), hintWords(b))
}

func hintWords(h *discoveryv1.EndpointHints) []string {
	if h == nil {
		return nil
	}
	var out []string
	for _, z := range h.ForZones {
		out = append(out, "zone "+z.Name)
	}
	for _, n := range h.ForNodes {
		out = append(out, "node "+n.Name)
	}
	slices.Sort(out)
	return out
}
