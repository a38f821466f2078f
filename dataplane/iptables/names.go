package iptables

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// Chains that exist once, whatever the table holds.
const (
	servicesChain    = xtables.Prefix + "SERVICES"
	nodePortsChain   = xtables.Prefix + "NODEPORTS"
	postroutingChain = xtables.Prefix + "POSTROUTING"
	hairpinChain     = xtables.Prefix + "HAIRPIN"
	masqueradeChain  = xtables.Prefix + "MASQUERADE"
	markMasqChain    = xtables.Prefix + "MARK-MASQ"
	refuseChain      = xtables.Prefix + "REFUSE"
	dropChain        = xtables.Prefix + "DROP"
	filterChain      = xtables.Prefix + "FILTER"
	forwardChain     = xtables.Prefix + "FORWARD"
)

// frontendChain is the chain of a frontend: TOY-SVC- and a hash of its key.
func frontendChain(k dataplane.Key) string { return xtables.Name("SVC", keyText(k)) }

// allowedChain is the chain of a frontend after its source ranges let a packet
// pass.
func allowedChain(k dataplane.Key) string { return xtables.Name("SRC", keyText(k)) }

// keyText is k.String, which is too slow for each of many frontends.
func keyText(k dataplane.Key) string {
	var room [64]byte
	b := netip.AddrPortFrom(k.Addr, k.Port).AppendTo(room[:0])
	return string(append(append(b, '/'), k.Protocol.String()...))
}

// setChain is the chain that picks an endpoint of a set, or a part of them:
// path is the way to it in the tree, empty for the whole set.
func setChain(set, path string) string {
	if path == "" {
		return xtables.Name("EPS", set)
	}
	return xtables.Name("EPS", set, path)
}

// addressChain is the chain of one address that has many ports.
func addressChain(a netip.Addr) string { return readable("", a.String()) }

// prefixChain is the chain of a part of the dispatch tree.
func prefixChain(p netip.Prefix) string { return readable("", p.String()) }

// hairpinPrefixChain is the chain of a part of the tree of local endpoints.
func hairpinPrefixChain(p netip.Prefix) string { return readable("HP-", p.String()) }

// portChain is the chain of a range of ports at one address, or of NodePorts
// when the address is not valid.
func portChain(at netip.Addr, p dataplane.Protocol, low, high uint16) string {
	return xtables.Name("PRT", at.String(), p.String(), fmt.Sprint(low), fmt.Sprint(high))
}

// readable names a chain after an address or prefix, TOY-10.96.0.0/24. Colons
// become underscores, because nft does not take them in names that people type.
// What is too long for a name, as some IPv6 prefixes are, is hashed.
func readable(kind, text string) string {
	name := xtables.Prefix + kind + strings.ReplaceAll(text, ":", "_")
	if len(name) > xtables.MaxName {
		return xtables.Name("NET", kind, text)
	}
	return name
}
