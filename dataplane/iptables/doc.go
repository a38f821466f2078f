// Package iptables is the backend that makes the kernel match a table with
// iptables rules, on either engine.
//
// It decides no policy and reads no Kubernetes object: the table has every
// decision in it. It stands between the table and package xtables, which
// compares rules with the kernel's and loads them:
//
//	dataplane.Table ─▶ rules (this package, pure) ─▶ xtables.Ruleset ─▶ kernel
//
// # Shape of the rules
//
// A packet finds its frontend in a tree over the digits of its destination
// address (dispatch.go, tree.go), then over protocol and port (ports.go). The
// frontend's chain looks at where the packet comes from (frontend.go) and picks
// one endpoint by chance, there or, when several rules lead to the same endpoint
// set, in a chain of the set; many endpoints are a tree again (pick.go). So what
// one packet costs grows with the logarithm of the number of frontends and
// endpoints. Clients of sets with affinity are remembered in ipsets, one an
// endpoint (affinity.go, package ipset). Chains that do not depend on the table
// are in fixed.go; source rewriting of packets that come back to their own
// endpoint is in hairpin.go. docs/packet-path.md draws it.
//
// A NodePort is in a tree of its own behind every address of the node. Frontends
// outside of the Service ranges set a bit of the connection's mark, by which table
// filter tells what is ours: it has as many rules for one as for a thousand.
//
// A loopback address in Node.Addrs is served like any other, but reached only in
// a kernel with route_localnet, which this package does not set: it opens to
// neighbours what listens on loopback. Over IPv6 it is not reached at all.
//
// Names of chains depend only on what the chain is for (names.go), so that a
// changed endpoint changes only the chains of its set, and an added frontend
// only those on the way to it. What the trees are made from (layout.go) is all
// that a follower remembers (follow.go): with it a change is planned without a
// look at the kernel.
//
// All files but backend.go, follow.go and live.go are pure; walk.go leads a packet
// through the rules.
package iptables
