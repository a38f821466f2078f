package ipvs

import (
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// classes says which sources can be told apart.
type classes struct {
	// incoming are the classes of packets that come in: Pods and outside, or
	// Pods alone where nothing tells them from others.
	incoming []dataplane.Source
	// own is the class of what the node itself sends.
	own dataplane.Source
}

// classesOf returns the classes for a node, whose ranges are of one family.
func classesOf(n dataplane.Node) classes {
	pods := []dataplane.Source{dataplane.FromPod}
	switch {
	case len(n.PodInterfaces) == 0 && slices.ContainsFunc(n.PodRanges, everything):
		return classes{pods, dataplane.FromPod}
	case slices.Contains(n.PodInterfaces, "+"), len(n.PodInterfaces)+len(n.PodRanges) == 0:
		return classes{pods, dataplane.FromNode}
	}
	return classes{append(pods, dataplane.FromOutside), dataplane.FromNode}
}

// outside reports whether there is a class of what is neither Pod nor node.
func (c classes) outside() bool { return slices.Contains(c.incoming, dataplane.FromOutside) }

// all lists each class once.
func (c classes) all() []dataplane.Source {
	out := slices.Clone(c.incoming)
	if !slices.Contains(out, c.own) {
		out = append(out, c.own)
	}
	return out
}

// everything reports whether a range holds all addresses.
func everything(r netip.Prefix) bool { return r.Bits() == 0 }

// fromPods are the matches of packets from Pods, each with a blank behind it.
func fromPods(n dataplane.Node) []string {
	var out []string
	for _, name := range n.PodInterfaces {
		out = append(out, xtables.FromLink(name)+" ")
	}
	if out != nil {
		return out
	}
	for _, r := range n.PodRanges {
		out = append(out, within("-s", r))
	}
	return out
}
