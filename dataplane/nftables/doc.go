// Package nftables is the backend that makes the kernel match a table with one
// table of nftables a family, "ip toyproxy" and "ip6 toyproxy", over netlink.
//
// It decides no policy and reads no Kubernetes object: the table has every
// decision in it. A table of that name with our comment is ours, with all in it;
// nothing else of nftables is touched, and no program is started. The kernel has
// to be 5.10 or newer: older ones forget comments of tables.
//
//	dataplane.Table ─▶ layout (pure) ─▶ delta (pure) ─▶ transactions ─▶ kernel
//
// # Shape of the rules
//
// No packet's way depends on how many Services there are. Set "frontends" says
// whether an address, protocol and port are dialled by clients at all. Behind
// it a packet is told by its source; a frontend whose fate is not the same for
// all sources is in a set for each exception (build.go, chains.go). Then the
// frontend is in the set "svcN" of those with N endpoints, which leads to chain
// "nN": one rule that draws a number below N and takes address and port from
// map "endpoints", whose key is the frontend with the number of a row (rows.go).
// So one endpoint more is a new row and another set for its frontends, and no
// rule: the kernel checks the whole table when a transaction has a jump in it, and
// every element of a map when it has a rule about the map. For that reason a table
// with many frontends has the chains for all numbers (see manyFrontends).
// Frontends with more than 32 endpoints, or with affinity, go through a map of
// chains instead, so that no packet tries more than 32 sets; their rows are in maps
// of their own, and so are those of the alternatives that some sources have.
//
// Each frontend has rows of its own, also where several share a set of
// endpoints, and a NodePort has some for every address of the node. A number for
// the set in between would save rows, but nft 1.0.6 aborts when it lists a map
// inside a map, and a number kept in the packet's mark would cost others their
// mark; a row costs 100 bytes of the kernel.
//
// All of that is in chains of type nat, which only the first packet of a flow
// meets. Two chains of type filter look at every packet, by one rule each: at what
// connection tracking takes for no part of any connection (strays.go).
//
// With affinity, every endpoint has a set of the clients it has served, which
// the kernel fills and lets time out, and a chain that adds to it. All sets of
// one Service and protocol share them. A set's chain looks for the client at
// each of its endpoints, so an endpoint that is in the set no more has no say.
//
// Shares by weight are exact to one row of 1,024 (see mostRows).
//
// # Order of effects
//
// Rows of one frontend are numbered without a gap, otherwise as the kernel has
// them already (difference.go). What a change adds comes before what leads to
// it, what it takes away goes after that, and a moment later: see stages.go.
//
// # Changes
//
// Backend.Plan believes nothing but the kernel, and reads all of the table. A
// follower (follower.go) plans from memory what some Services change: how the rows
// of every frontend are numbered, and how often things are there that Services
// share (tally.go). It builds both sides of the change, compares them (memory.go),
// and writes on a socket that stays open. The kernel numbers the generations of its
// rules, of all tables; each transaction names the generation that it builds upon
// and is refused in any other. So whatever another program changes in nftables, by
// iptables-nft too, takes a pass over all.
//
// # Limits
//
// A packet that another table drops stays dropped: nftables has no way to
// overrule a FORWARD chain of iptables with the policy DROP. A change that has to do
// with other Services than it names takes a pass over all as well: one that takes
// an address and port from a NodePort of another, or that is the first to treat the
// node's own packets differently where nothing tells Pods.
//
// kernel.go does the I/O; everything else is pure. docs/packet-path.md draws the
// way of a packet.
package nftables
