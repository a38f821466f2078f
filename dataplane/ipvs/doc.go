// Package ipvs is the backend that lets the kernel's IP virtual server (IPVS)
// choose endpoints.
//
// It stands below package dataplane: a Table comes in, and the kernel of one
// network namespace is made to match it. Five kinds of kernel objects work
// together, each recognisable as ours without any memory:
//
//   - virtual and real servers do the balancing. Ours are those that the sets name
//     which say what is ours: TOY-VIP by address, TOY-PORT by address and port,
//     TOY-MARK by mark;
//   - routes let the node take the packets in. An address in a range of Services
//     is local (table local, protocol 84); any other is so for the ports of its
//     frontends alone (deliver.go). There is no dummy link and no address: VIPs are
//     not addresses of the node, and nothing shows them as such;
//   - sets (names in sets.go) hold what differs between Services;
//   - a fixed number of iptables rules (rules.go, rules_mark.go) mark what has to be
//     masqueraded, choose by source (marks.go), and refuse or drop what no virtual
//     server takes, so that a daemon of the node is never reachable at an address of
//     a Service. Rules and sets for what no Service asks for are not there;
//   - kernel parameters (settings.go), through package dataplane/sysctl, and
//     timeouts (timeouts.go).
//
// The order of effects is in difference.go: a packet meets the old state or the
// new one, never a door that leads to a half-built room. A TCP endpoint that leaves
// drains (drain.go), and so does everything when another backend takes over
// (leave.go). Who follows a table by its changes does so out of memory
// (follow.go, memory.go, change.go).
//
// Limits: node ports are not served on loopback addresses, because IPVS sends
// nothing on from there, which a plan remarks; each virtual server remembers clients
// for itself.
//
// The package decides no policy and knows no Kubernetes type. kernel.go writes to
// the kernel, by socket.go where it is much, and read.go reads from it; probe.go
// asks what the kernel can, journal.go keeps what was before; everything else is
// pure. docs/packet-path.md draws the way of a packet.
package ipvs
