package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/nftables/expr"

	"github.com/toyproxy/toyproxy/dataplane"
)

// statement is a part of a rule: a match, or what is done to packets.
type statement interface {
	// text is the statement as nft writes it.
	text(dataplane.Family) string
	// expressions is the statement as the kernel takes it.
	expressions(dataplane.Family) []expr.Any
}

// field is a part of a packet that is looked up.
type field uint8

const (
	source field = iota
	destination
	protocol
	port
)

// frontendFields are what a frontend is dialled by.
var frontendFields = []field{destination, protocol, port}

// inSet matches packets whose fields are in a set.
type inSet struct {
	fields []field
	set    string
	not    bool
}

// dialled matches packets to the frontends of a set.
func dialled(set string) inSet { return inSet{frontendFields, set, false} }

// notDialled matches packets to all other frontends.
func notDialled(set string) inSet { return inSet{frontendFields, set, true} }

// inRange matches packets whose source or destination is in a range.
type inRange struct {
	field field
	in    netip.Prefix
}

// fromLocal matches packets whose source is an address of the node.
type fromLocal struct{}

// isProtocol matches packets of a protocol.
type isProtocol dataplane.Protocol

// translated matches packets of flows whose destination was rewritten.
type translated struct{}

// invalid matches packets that connection tracking takes for no part of any
// connection.
type invalid struct{}

// fromLink matches packets that came in through a link, or with "+" as its last
// character through one whose name begins so.
type fromLink string

// longestLink is how long a link's name may be.
const longestLink = 15

// name is what the link is called, or begins with.
func (s fromLink) name() (name string, begins bool) {
	name, begins = strings.CutSuffix(string(s), "+")
	return name[:min(len(name), longestLink)], begins && len(name) < longestLink
}

// marked matches packets whose source is to be rewritten: they have the bit.
type marked uint32

// mark notes by a bit that the source is to be rewritten.
type mark uint32

// unmark takes the note away.
type unmark uint32

// masquerade rewrites the source to the node's address on the way out.
type masquerade struct{}

// drop discards the packet.
type drop struct{}

// reset answers with a TCP reset, unreachable with ICMP port unreachable.
type (
	reset       struct{}
	unreachable struct{}
)

// goTo continues in a chain, jump comes back from it.
type (
	goTo string
	jump string
)

// pick is the choice of one of count rows of the frontend that was dialled,
// which begin at offset.
type pick struct{ count, offset uint32 }

// deliverBy sends packets to the endpoint in a row of a map.
type deliverBy struct {
	pick
	in string
}

// continueBy goes to the chain in a row of a map.
type continueBy struct {
	pick
	in string
}

// continueAt goes to the chain that a map has for the frontend.
type continueAt string

// remember puts the source into a set of clients for a time.
type remember struct {
	set  string
	time time.Duration
}

// deliver sends packets of a protocol to an endpoint.
type deliver netip.AddrPort

func (s inSet) text(f dataplane.Family) string {
	not := ""
	if s.not {
		not = "!= "
	}
	return fieldsText(f, s.fields) + " " + not + "@" + s.set
}

func (s inRange) text(f dataplane.Family) string {
	return fieldsText(f, []field{s.field}) + " " + prefixText(s.in)
}

func (fromLocal) text(dataplane.Family) string { return "fib saddr type local" }
func (s isProtocol) text(dataplane.Family) string {
	return "meta l4proto " + dataplane.Protocol(s).String()
}
func (translated) text(dataplane.Family) string { return "ct status dnat" }
func (invalid) text(dataplane.Family) string    { return "ct state invalid" }
func (s mark) text(dataplane.Family) string {
	return fmt.Sprintf("meta mark set meta mark | 0x%08x", uint32(s))
}
func (s unmark) text(dataplane.Family) string {
	return fmt.Sprintf("meta mark set meta mark & 0x%08x", ^uint32(s))
}
func (masquerade) text(dataplane.Family) string  { return "masquerade fully-random" }
func (drop) text(dataplane.Family) string        { return "drop" }
func (reset) text(dataplane.Family) string       { return "reject with tcp reset" }
func (unreachable) text(dataplane.Family) string { return "reject" }
func (s goTo) text(dataplane.Family) string      { return "goto " + string(s) }
func (s jump) text(dataplane.Family) string      { return "jump " + string(s) }

func (s marked) text(dataplane.Family) string {
	if s == 1<<31 { // nft takes the mask of the highest bit for a prefix
		return "meta mark 0x80000000/1"
	}
	return fmt.Sprintf("meta mark & 0x%08[1]x == 0x%08[1]x", uint32(s))
}

func (s fromLink) text(dataplane.Family) string {
	name, begins := s.name()
	if begins {
		name += "*"
	}
	return `iifname "` + name + `"`
}

func (p pick) text(f dataplane.Family) string {
	out := fmt.Sprintf("%s . numgen random mod %d", fieldsText(f, frontendFields), p.count)
	if p.offset > 0 {
		out += fmt.Sprintf(" offset %d", p.offset)
	}
	return out
}

func (s deliverBy) text(f dataplane.Family) string {
	return "dnat " + ipText(f) + " to " + s.pick.text(f) + " map @" + s.in
}

func (s continueBy) text(f dataplane.Family) string { return s.pick.text(f) + " vmap @" + s.in }

func (s continueAt) text(f dataplane.Family) string {
	return fieldsText(f, frontendFields) + " vmap @" + string(s)
}

func (s remember) text(f dataplane.Family) string {
	return fmt.Sprintf("update @%s { %s timeout %s }", s.set, fieldsText(f, []field{source}), durationText(s.time))
}

func (s deliver) text(dataplane.Family) string { return "dnat to " + netip.AddrPort(s).String() }

// ipText is the name of a family, as nft has it.
func ipText(f dataplane.Family) string {
	if f == dataplane.IPv6 {
		return "ip6"
	}
	return "ip"
}

func fieldsText(f dataplane.Family, fields []field) string {
	parts := make([]string, len(fields))
	for i, fd := range fields {
		parts[i] = [...]string{ipText(f) + " saddr", ipText(f) + " daddr", "meta l4proto", "th dport", "numgen"}[fd]
	}
	return strings.Join(parts, " . ")
}

// prefixText writes a range; that of one address is the address.
func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.Masked().String()
}

// durationText writes whole seconds as nft does: 1d2h3m4s.
func durationText(d time.Duration) string {
	var out strings.Builder
	left := int64(d / time.Second)
	for _, u := range []struct {
		seconds int64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}} {
		if n := left / u.seconds; n > 0 {
			fmt.Fprintf(&out, "%d%s", n, u.name)
		}
		left %= u.seconds
	}
	return out.String()
}
