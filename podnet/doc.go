// Package podnet makes the network of Pods on one node: a bridge with the
// gateway addresses, and for each Pod a named network namespace that `ip netns`
// knows, a veth pair, addresses, routes and the files that `ip netns exec`
// mounts over /etc. It also enters namespaces safely, and watches a node's
// links, addresses and routes.
//
// It knows no Kubernetes type, runs no process, and writes no rule: packages
// dataplane/iptables and dataplane/ipvs do that. The node is the network
// namespace of the calling thread; namespaces of Pods are entered only by
// goroutines of their own (see Do).
//
// Addresses in a Pod have no neighbours (/32 and /128): everything a Pod sends
// goes through the gateway on the bridge, so that a reply from a Pod on the same
// bridge passes the node's connection tracking too. With a shared subnet it would
// be switched past it wherever net.bridge.bridge-nf-call-iptables is 0 or
// missing, and Services between Pods of one node would fail. The ports are in
// hairpin mode for the nodes where that sysctl is 1: there a packet that a
// Service sends back to its own Pod leaves by the port it came in.
//
// Ownership survives amnesia. Before anything is made it is written down in the
// record, a file in the state directory; a namespace carries a mark (the alias of
// its loopback link) from before the moment it can be seen, links carry one as
// their alias. Only what is recorded or marked is ever changed or removed.
//
// An Underlay makes several nodes of one machine: a namespace each, joined by a
// bridge in a namespace of its own. What is in such a node is then made like in
// any other, from inside.
//
// In the flow it stands below package pods, which asks for networks, starts
// processes in them, and joins the plans of this package with its own.
package podnet
