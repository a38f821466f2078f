package xtables

import (
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
)

// PodToPod returns the matches of packets from one Pod range to another or the
// same one, for each pair; the node's ranges have to be of one family. A range
// of all addresses says nothing about Pods: it has no match.
func PodToPod(n dataplane.Node) []string {
	var out []string
	for _, from := range n.PodRanges {
		for _, to := range n.PodRanges {
			if from.Bits() > 0 && to.Bits() > 0 {
				out = append(out, fromTo(from, to))
			}
		}
	}
	return out
}

func fromTo(from, to netip.Prefix) string {
	return "-s " + from.Masked().String() + " -d " + to.Masked().String()
}
