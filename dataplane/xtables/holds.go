package xtables

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// certain is the chance of what is so or is not.
func certain(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// holds is the chance with which a condition holds for a part, leaving out that
// it may be negated; known is false for what a walk knows nothing of.
func (v *visit) holds(c condition, at Part) (chance float64, known bool) {
	arg := ""
	if len(c.args) > 0 {
		arg = c.args[0]
	}
	switch c.option {
	case "-s":
		return within(arg, v.w.Packet.Src)
	case "-d":
		return within(arg, at.To.Addr())
	case "--ctorigdst":
		return within(arg, v.w.Packet.Addr)
	case "-i":
		return certain(linkIs(arg, at.In)), true
	case "-o":
		return certain(at.Out == arg), at.Out != "" || arg == "lo"
	case "-p":
		p := v.w.Packet.Protocol
		return certain(arg == p.String() || arg == fmt.Sprint(uint8(p))), true
	case "--dport":
		low, high, ok := portsIn(arg)
		port := uint64(at.To.Port())
		return certain(low <= port && port <= high), ok
	case "--probability":
		f, err := strconv.ParseFloat(arg, 64)
		return f, err == nil && f >= 0 && f <= 1
	}
	return v.holdsOfState(c, arg, at)
}

// linkIs reports whether a link has a name, or begins with it and "+". A packet
// on its way out has come in through none.
func linkIs(name, link string) bool {
	prefix, begins := strings.CutSuffix(name, "+")
	return link != "" && (link == name || begins && strings.HasPrefix(link, prefix))
}

// holdsOfState answers what is not written in the packet itself.
func (v *visit) holdsOfState(c condition, arg string, at Part) (chance float64, known bool) {
	switch c.option {
	case "--src-type":
		return certain(v.w.Packet.FromNode()), arg == "LOCAL"
	case "--dst-type":
		return certain(v.w.Packet.Owns(at.To.Addr())), arg == "LOCAL"
	case "--update", "--rcheck":
		return 0, true // the first packet of a client that nobody remembers
	case "--mark":
		return marked(c, arg, at)
	case "--ctstate":
		is := func(state string) bool { return state == "NEW" || state == "DNAT" && at.Translated }
		return certain(slices.ContainsFunc(strings.Split(arg, ","), is)), true
	case "--ctstatus":
		return 0, arg == "CONFIRMED" // only a flow's first packet comes by before it is
	case "--ctdir":
		return certain(arg == "ORIGINAL"), true
	case "--match-set":
		return v.inSet(c, at)
	}
	return 1, silent(c.option)
}

// marked compares the mark of a part, or that of its connection.
func marked(c condition, arg string, at Part) (chance float64, known bool) {
	value, mask, ok := underMask(arg)
	have := at.Mark
	if c.module == "connmark" {
		have = at.ConnMark
	}
	return certain(have&mask == value), ok
}

// inSet asks whoever knows the sets.
func (v *visit) inSet(c condition, at Part) (chance float64, known bool) {
	if v.w.Member == nil || len(c.args) != 2 {
		return 0, false
	}
	member, known := v.w.Member(c.args[0], c.args[1], at)
	return certain(member), known
}

// within reports whether an address lies in a range.
func within(text string, a netip.Addr) (chance float64, known bool) {
	p, ok := prefixIn(text)
	return certain(p.Contains(a)), ok
}
