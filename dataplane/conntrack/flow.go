package conntrack

import (
	"fmt"
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Tuple is one direction of a flow: who sends, and to whom.
type Tuple struct {
	Source, Destination netip.AddrPort
}

// Flow is one entry of the kernel's table of tracked flows.
type Flow struct {
	Protocol dataplane.Protocol
	// Original is the direction of the first packet, as the client sent it;
	// Reply is that of the answers, before they are translated back.
	Original, Reply Tuple
	// Rewritten: a rule of table nat rewrites the destination. IPVS translates
	// by itself and leaves it false, with the endpoint in Reply all the same.
	Rewritten bool
	// Opening: of the handshake of TCP or SCTP only the first packet has been
	// seen, and no answer. Always false for UDP.
	Opening bool
	// ID is the kernel's mark of the entry: one that is made later for the same
	// tuples has another, unless it happens to lie at the same place in memory.
	ID uint32
}

// Endpoint is who the packets of the flow go to.
func (f Flow) Endpoint() netip.AddrPort { return f.Reply.Source }

// Translated reports whether packets go elsewhere than the client sent them,
// whoever does it.
func (f Flow) Translated() bool { return f.Endpoint() != f.Original.Destination }

// String returns "udp 10.244.0.2:4000 → 10.96.0.53:53 (10.244.0.5:53)".
func (f Flow) String() string {
	return fmt.Sprintf("%s %s → %s (%s)", f.Protocol, f.Original.Source, f.Original.Destination, f.Endpoint())
}

// line is the flow as conntrack(8) lists it, without counters and timers.
func (f Flow) line() string {
	return fmt.Sprintf("%s %s %s", f.Protocol, f.Original.line(), f.Reply.line())
}

func (t Tuple) line() string {
	return fmt.Sprintf("src=%s dst=%s sport=%d dport=%d", t.Source.Addr(), t.Destination.Addr(), t.Source.Port(), t.Destination.Port())
}

// Finding is a stale flow.
type Finding struct {
	Flow Flow
	// Service is the origin of the frontend at the flow's destination; empty
	// when there is none.
	Service string
	// Reason says for people why the flow is stale.
	Reason string
}
