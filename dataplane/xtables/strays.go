package xtables

import "github.com/toyproxy/toyproxy/dataplane"

// straysChain is the chain of packets that connection tracking takes for no part
// of any connection.
const straysChain = Prefix + "INVALID"

// Strays returns the chain, and the jumps to it, that keep stray segments from
// resetting connections. The node's facts have to be of one family.
//
// A segment outside of the window of its connection is translated neither way. One
// of an endpoint would so reach the client with the endpoint's address, or the
// node that a masqueraded client seems to be: neither knows of such a connection,
// and both answer with a reset, which the endpoint believes. One of a client would
// go on to an address of no host, or to the node whose NodePort it is to, or with
// IPVS to the endpoint by an address that this does not know. All are dropped, as
// a router loses packets: who sent them sends again what is lost.
//
// No connection is known of such a packet, so it is told by address alone: TCP
// that comes from a Pod, or is to a Service range, or matches one of frontends,
// which are matches of packets to other addresses of ours. Nothing is done about
// others.
//
// A kernel whose tracking is liberal (see Liberal) has no such segments and needs
// no such rules.
func Strays(n dataplane.Node, frontends ...string) ([]Chain, []Jump) {
	var rules []string
	for _, name := range n.PodInterfaces {
		rules = append(rules, FromLink(name)+" -p tcp -j DROP")
	}
	for _, r := range n.PodRanges {
		if len(n.PodInterfaces) == 0 && r.Bits() > 0 {
			rules = append(rules, "-s "+r.Masked().String()+" -p tcp -j DROP")
		}
	}
	for _, r := range n.ServiceRanges {
		if r.Bits() > 0 {
			rules = append(rules, "-d "+r.Masked().String()+" -p tcp -j DROP")
		}
	}
	for _, match := range frontends {
		rules = append(rules, match+" -j DROP")
	}
	if rules == nil {
		return nil, nil
	}
	var jumps []Jump
	for _, base := range []string{"INPUT", "FORWARD"} {
		jumps = append(jumps, Jump{Table: Filter, Base: base,
			Rule: "-m conntrack --ctstate INVALID " + JumpComment("segments of no connection") + " -j " + straysChain})
	}
	return []Chain{{Table: Filter, Name: straysChain, Rules: rules}}, jumps
}
