package iptables

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipset"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// clientMemory is where the clients of endpoints are remembered.
type clientMemory uint8

const (
	// inSets: an ipset for each endpoint, which holds ipset.Capacity clients.
	inSets clientMemory = iota
	// inLists: a list of the match "recent" for each endpoint, where the kernel
	// lacks the former. It holds 100 clients, or what module xt_recent was told
	// when it was loaded (ip_list_tot), and a client more drives out the oldest.
	inLists
)

// clientSetPrefix begins the names of our ipsets of clients.
const clientSetPrefix = "TOY-CLI-"

// clientsOf stands for an endpoint's memory in a name. Sets of one Service,
// protocol and family share it.
func clientsOf(s dataplane.EndpointSet, e dataplane.Endpoint) string {
	return xtables.Hash(s.Service, s.Protocol.String(), e.Addr.String())
}

// clientSet is the name of the ipset of an endpoint's clients.
func clientSet(s dataplane.EndpointSet, e dataplane.Endpoint) string {
	return clientSetPrefix + clientsOf(s, e)
}

// recentList is the name of the kernel's list of an endpoint's clients.
func recentList(s dataplane.EndpointSet, e dataplane.Endpoint) string { return "TOY" + clientsOf(s, e) }

// ownedSet reports whether an ipset of that name is one of clients, made by us.
func ownedSet(name string) bool {
	hash, ok := strings.CutPrefix(name, clientSetPrefix)
	return ok && xtables.IsHash(hash)
}

// clientSets are the ipsets that the rules for a list of endpoint sets need.
func clientSets(sets []dataplane.EndpointSet) []ipset.Set {
	var out []ipset.Set
	seen := map[string]bool{}
	for _, s := range sets {
		if s.Affinity <= 0 {
			continue
		}
		for _, e := range s.Endpoints {
			name := clientSet(s, e)
			if seen[name] {
				continue
			}
			seen[name] = true
			out = append(out, ipset.Set{Name: name, Family: dataplane.FamilyOf(e.Addr.Addr()),
				Timeout: time.Duration(affinitySeconds(s)) * time.Second, For: s.Service})
		}
	}
	return out
}

// affinitySeconds is how long a client is remembered, in the kernel's unit.
func affinitySeconds(s dataplane.EndpointSet) uint32 {
	whole := math.Ceil(min(s.Affinity, ipset.MaxTimeout).Seconds())
	return max(1, uint32(whole))
}

// toChain is the chain that remembers a client of an endpoint and sends it there.
func (p *picker) toChain(e dataplane.Endpoint) string {
	return setChain(p.set.Name, "to "+e.Addr.String())
}

// deliveries adds the chains that remember and deliver, one an endpoint. Only
// sets with affinity that is kept in ipsets have them: entering a client is a
// target there, and a rule has one target.
func (p *picker) deliveries() {
	if p.set.Affinity <= 0 || p.memory != inSets {
		return
	}
	for _, e := range p.set.Endpoints {
		p.chains = append(p.chains, xtables.Chain{Table: xtables.NAT, Name: p.toChain(e), For: p.set.Service,
			Rules: []string{xtables.EnterSet(clientSet(p.set, e), affinitySeconds(p.set)), p.dnat("", e)}})
	}
}

// deliver sends the packets that match to an endpoint, and with affinity
// remembers the client. Where that is a match, the chance is tested before it: it
// has its effect when it is reached.
func (p *picker) deliver(match string, e dataplane.Endpoint) string {
	switch {
	case p.set.Affinity <= 0:
		return p.dnat(match, e)
	case p.memory == inSets:
		return rule(match, goTo(p.toChain(e)))
	}
	return p.dnat(rule(match, "-m recent --set", p.list(e)), e)
}

// remembered are the rules that send a client back to the endpoint that served
// it last, whose memory of it begins anew. They are a list of all endpoints.
func (p *picker) remembered() []string {
	if p.set.Affinity <= 0 {
		return nil
	}
	out := make([]string, 0, len(p.set.Endpoints)+bucket)
	for _, e := range p.set.Endpoints {
		if p.memory == inSets {
			out = append(out, rule(xtables.InSet(clientSet(p.set, e)), goTo(p.toChain(e))))
			continue
		}
		match := fmt.Sprintf("-m recent --update --seconds %d --reap %s", affinitySeconds(p.set), p.list(e))
		out = append(out, p.dnat(match, e))
	}
	return out
}

// list names the list of an endpoint's clients, one entry an address.
func (p *picker) list(e dataplane.Endpoint) string {
	mask := "255.255.255.255"
	if e.Addr.Addr().Is6() {
		mask = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
	}
	return "--name " + recentList(p.set, e) + " --mask " + mask + " --rsource"
}
