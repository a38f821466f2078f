package iptables

import (
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// Walk follows a packet through the rules that a table asks for. Pure.
func (b *Backend) Walk(t dataplane.Table, p dataplane.Packet) (dataplane.Trace, error) {
	return follow(Ruleset(t, dataplane.FamilyOf(p.Addr), true).Rules(), p), nil
}

// follow sends a packet through the hooks in the kernel's order. What has been
// translated is forwarded, or sent when the node's own; what has not and is to
// an address of the node ends in INPUT.
func follow(rules xtables.Rules, p dataplane.Packet) dataplane.Trace {
	w := xtables.Walker{Rules: rules, Packet: p, Describe: describe, Member: unremembered}
	if p.In == "" {
		parts := w.Hook(xtables.NAT, "OUTPUT", w.Start())
		return w.Finish(w.Hook(xtables.NAT, "POSTROUTING", w.Hook(xtables.Filter, "OUTPUT", parts)))
	}
	var forwarded, input []xtables.Part
	for _, at := range w.Hook(xtables.NAT, "PREROUTING", w.Start()) {
		if !at.Translated && p.Owns(p.Addr) {
			input = append(input, at)
			continue
		}
		forwarded = append(forwarded, at)
	}
	ends := w.Hook(xtables.Filter, "INPUT", input)
	return w.Finish(append(ends, w.Hook(xtables.NAT, "POSTROUTING", w.Hook(xtables.Filter, "FORWARD", forwarded))...))
}

// describe says what a rule that was taken decides, by the chain that it stands
// in and by what it leads to.
func describe(r xtables.Taken) (dataplane.Subject, string) {
	switch kind(r.Chain) {
	case "SVC", "SRC":
		if r.Target == "DNAT" {
			return describePick(r)
		}
		return describeFrontend(r.Target)
	case "EPS":
		return describePick(r)
	case "dispatch":
		if r.Base != "POSTROUTING" {
			return describeDispatch(r.Target)
		}
		fallthrough
	case "hairpin":
		return dataplane.AboutHairpin, "the endpoint has dialled itself: the source becomes an address of the node"
	}
	if s, why, ok := describeEnd(r); ok {
		return s, why
	}
	switch r.Target {
	case servicesChain:
		return dataplane.AboutEntry, "every first packet of a flow"
	case postroutingChain:
		return dataplane.AboutEntry, "on the way out"
	case forwardChain:
		return dataplane.AboutEntry, "what the node forwards"
	}
	return dataplane.AboutEntry, "packets that are marked to be refused or dropped"
}

// unremembered looks into the sets of clients: the packet is the first of a
// client that no endpoint has served yet.
func unremembered(set, _ string, _ xtables.Part) (member, known bool) {
	return false, strings.HasPrefix(set, clientSetPrefix)
}

// describePick describes the choice of an endpoint.
func describePick(r xtables.Taken) (dataplane.Subject, string) {
	switch {
	case r.Target == "SET":
		return dataplane.AboutAffinity, "the client is remembered, to come back to this endpoint"
	case kind(r.Target) == "EPS":
		return dataplane.AboutChoice, "lots are drawn"
	}
	return dataplane.AboutChoice, "the endpoint becomes the destination"
}

// describeEnd describes the chains that exist once and do what others decided.
func describeEnd(r xtables.Taken) (dataplane.Subject, string, bool) {
	type end struct {
		subject dataplane.Subject
		why     string
	}
	const untranslated = "no other rule of table nat is to translate it"
	ends := map[[2]string]end{
		{markMasqChain, "MARK"}:             {dataplane.AboutMasquerading, "a mark notes that the source is to be rewritten"},
		{masqueradeChain, "MARK"}:           {dataplane.AboutMasquerading, "the mark is taken off"},
		{masqueradeChain, "MASQUERADE"}:     {dataplane.AboutMasquerading, "the source becomes an address of the node"},
		{refuseChain, "MARK"}:               {dataplane.AboutRefusal, "a mark notes that the packet is to be refused"},
		{refuseChain, "ACCEPT"}:             {dataplane.AboutRefusal, untranslated},
		{dropChain, "MARK"}:                 {dataplane.AboutDiscard, "a mark notes that the packet is to be dropped"},
		{dropChain, "ACCEPT"}:               {dataplane.AboutDiscard, untranslated},
		{forwardChain, "ACCEPT"}:            {dataplane.AboutPassage, "accepted, whatever the host's FORWARD policy is"},
		{postroutingChain, hairpinChain}:    {dataplane.AboutHairpin, "a translated packet: may an endpoint have dialled itself?"},
		{postroutingChain, masqueradeChain}: {dataplane.AboutMasquerading, "the mark says that the source is to be rewritten"},
		{filterChain, "DROP"}:               {dataplane.AboutDiscard, "dropped, and nobody is told"},
		{filterChain, "REJECT"}:             {dataplane.AboutRefusal, "refused at once"},
	}
	e, ok := ends[[2]string{r.Chain, r.Target}]
	return e.subject, e.why, ok
}

// describeFrontend describes the rules of a frontend.
func describeFrontend(to string) (dataplane.Subject, string) {
	switch {
	case to == markMasqChain:
		return dataplane.AboutMasquerading, "packets from there have their source rewritten"
	case to == "MARK":
		return dataplane.AboutMasquerading, "the source stays, unless a rule below says otherwise"
	case to == refuseChain:
		return dataplane.AboutRefusal, "packets from there are refused"
	case to == dropChain:
		return dataplane.AboutDiscard, "packets from there are dropped"
	case kind(to) == "SRC":
		return dataplane.AboutSources, "the source is in an allowed range"
	case kind(to) == "EPS":
		return dataplane.AboutClass, "packets from there go to these endpoints"
	}
	return dataplane.AboutPassage, "the connection is marked, so that FORWARD knows it"
}

// describeDispatch describes the tree over addresses and ports.
func describeDispatch(to string) (dataplane.Subject, string) {
	switch {
	case to == markMasqChain:
		return dataplane.AboutMasquerading, "what comes from elsewhere than a Pod has its source rewritten"
	case to == refuseChain:
		return dataplane.AboutUnserved, "no frontend has this port of the address"
	case to == dropChain:
		return dataplane.AboutUnserved, "no frontend has this address of the Service range"
	case to == nodePortsChain:
		return dataplane.AboutDispatch, "an address of the node: NodePorts"
	case kind(to) == "SVC":
		return dataplane.AboutDispatch, "address, protocol and port are those of a frontend"
	}
	return dataplane.AboutDispatch, "a part of the addresses or ports"
}

// kind is what a chain of ours is for: "SVC", "SRC", "EPS", "dispatch" for all
// parts of the tree to the frontends, "hairpin" for that of the endpoints here,
// "" for those that exist once.
func kind(chain string) string {
	rest, ours := strings.CutPrefix(chain, xtables.Prefix)
	word, _, hashed := strings.Cut(rest, "-")
	switch {
	case !ours:
		return ""
	case chain == hairpinChain, strings.HasPrefix(rest, "HP-"):
		return "hairpin"
	case hashed && (word == "SVC" || word == "SRC" || word == "EPS"):
		return word
	case chain == servicesChain, chain == nodePortsChain, hashed && (word == "PRT" || word == "NET"), strings.ContainsAny(rest, "._"):
		return "dispatch"
	}
	return ""
}
