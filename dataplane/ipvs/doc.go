// Package ipvs is the backend that lets the kernel's IP virtual server (IPVS)
// choose endpoints.
//
// It stands below package dataplane: a Table comes in, and the kernel of one
// network namespace is made to match it. Five kinds of kernel objects work
// together, each recognisable as ours without any memory:
//
//   - virtual and real servers do the balancing. Ours are those whose address and
//     port stand in set TOY-VS, or whose address stands in set TOY-VIP or on a
//     route of ours;
//   - local routes (table local, protocol 84) let the node take the packets in.
//     There is no dummy link and no address: VIPs are not addresses of the node,
//     and nothing shows them as such;
//   - sets (names in sets.go) tell the rules which addresses and ports are ours;
//   - a fixed number of iptables rules (rules.go) mark what has to be masqueraded,
//     and refuse or drop what no virtual server takes, so that a daemon of the
//     node is never reachable at an address of a Service;
//   - kernel parameters (settings.go), through package dataplane/sysctl.
//
// The order of effects is in difference.go: a packet meets the old state or the
// new one, never a door that leads to a half-built room.
//
// Limits of this version: a virtual server cannot tell source classes apart, so
// where the routes of a frontend differ, Routes[FromPod] decides; frontends of
// kind NodePort and source ranges are reported as left out, not served.
//
// The package decides no policy and knows no Kubernetes type. kernel.go writes to
// the kernel and read.go reads from it; everything else is pure.
// docs/packet-path.md draws the way of a packet.
package ipvs
