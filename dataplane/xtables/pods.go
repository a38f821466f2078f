package xtables

import (
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
)

// longestLink is how many bytes the kernel allows in the name of a link.
const longestLink = 15

// FromLink returns the match of packets that came in through a link, or with "+"
// as its last character through one whose name begins so. No name is longer than
// longestLink: what is to begin with as many bytes is that one link.
func FromLink(name string) string { return "-i " + name[:min(len(name), longestLink)] }

// PodToPod returns the matches of packets from one Pod range to another or the
// same one, for each pair; the node's ranges have to be of one family. A range
// of all addresses says nothing about Pods: it has no match. Where links tell
// Pods, they are those of this node, and the pairs are of links.
func PodToPod(n dataplane.Node) []string {
	var out []string
	for _, in := range n.PodInterfaces {
		for _, to := range n.PodInterfaces {
			out = append(out, FromLink(in)+" -o "+to[:min(len(to), longestLink)])
		}
	}
	if out != nil {
		return out
	}
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
