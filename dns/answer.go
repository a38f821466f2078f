package dns

import (
	"net/netip"
	"strings"

	mdns "github.com/miekg/dns"
)

const (
	// schema is the version of the specification's schema, as CoreDNS tells it.
	schema = "1.1.0"
	// schemaTTL is that of the record which says so, in seconds: it never changes.
	schemaTTL = 28800
	// maxSOATTL bounds how long an answer that says no is kept, in seconds.
	maxSOATTL = 300
	// maxAliases ends a chain of ExternalNames within the zone.
	maxAliases = 10
)

// Answer is what the zone says to one question. Its records are the caller's own.
type Answer struct {
	// Ours is false when the name is not of this zone: somebody else must be asked.
	Ours  bool
	Rcode int
	// The three sections.
	Answer, Authority, Extra []mdns.RR
	// Chase, when not empty, is the target of the CNAME that ends Answer, outside of
	// the zone: the server appends what its forwarders say of it.
	Chase string
}

// asked is a question in the case in which it came.
type asked struct {
	name   string
	domain string // the end of name that is the zone's
	qtype  uint16
}

// Answer answers a question: a name in any case, a type and a class.
//
// Owner names have the case of the question, so has the domain in names that are
// targets. A reverse name is of this zone only if the address has a name here.
func (z *Zone) Answer(q mdns.Question) Answer {
	name := q.Name
	if !strings.HasSuffix(name, ".") {
		name = mdns.Fqdn(name)
	}
	lower := strings.ToLower(name)
	z.mu.RLock()
	defer z.mu.RUnlock()
	rest, ok := z.below(lower)
	if !ok {
		return z.answerReverse(asked{name: name, qtype: q.Qtype}, lower, q.Qclass)
	}
	if refused(q.Qtype, q.Qclass) {
		return Answer{Ours: true, Rcode: mdns.RcodeRefused}
	}
	ask := asked{name: name, domain: name[len(name)-len(z.domain):], qtype: q.Qtype}
	a := Answer{Ours: true}
	if !z.fill(&a, ask, z.find(rest)) {
		a.Authority = []mdns.RR{z.soa(ask.domain, ask.domain)}
	}
	return a
}

// refused are questions for a class other than the Internet's, and for the whole zone.
func refused(qtype, qclass uint16) bool {
	return qclass != mdns.ClassINET || qtype == mdns.TypeAXFR || qtype == mdns.TypeIXFR
}

// below returns the part of a name left of the domain, and whether it is of the zone.
func (z *Zone) below(lower string) (string, bool) {
	if lower == z.domain {
		return "", true
	}
	rest, ok := strings.CutSuffix(lower, z.domain)
	if !ok || z.domain == "." {
		return strings.TrimSuffix(lower, "."), ok
	}
	if !strings.HasSuffix(rest, ".") || strings.Contains(rest, `\`) && !mdns.IsSubDomain(z.domain, lower) {
		return "", false
	}
	return rest[:len(rest)-1], true
}

// fill answers from what the name stands for, and says whether there is something at
// the end: if not, the answer denies that.
func (z *Zone) fill(a *Answer, ask asked, at spot) bool {
	had := len(a.Answer)
	switch at.place {
	case missing:
		a.Rcode = mdns.RcodeNameError
	case apex:
		z.fillApex(a, ask)
	case nameServer:
		a.Answer = z.addresses(a.Answer, ask, z.serverAddrs())
	case version:
		if ask.qtype == mdns.TypeTXT {
			a.Answer = append(a.Answer, &mdns.TXT{Hdr: header(ask.name, mdns.TypeTXT, schemaTTL), Txt: []string{schema}})
		}
	case atPod:
		if rtype(at.addr) == ask.qtype {
			a.Answer = append(a.Answer, address(ask.name, at.addr, z.ttl))
		}
	case atService:
		if at.svc.alias != "" {
			return z.follow(a, ask, at.svc)
		}
		fallthrough
	case atEndpoint, atPort:
		z.fillService(a, ask, at)
	}
	return len(a.Answer) > had
}

// fillApex answers for the domain itself.
func (z *Zone) fillApex(a *Answer, ask asked) {
	switch ask.qtype {
	case mdns.TypeSOA:
		a.Answer = append(a.Answer, z.soa(ask.name, ask.domain))
	case mdns.TypeNS:
		ns := "ns.dns." + ask.domain
		a.Answer = append(a.Answer, &mdns.NS{Hdr: header(ask.name, mdns.TypeNS, z.ttl), Ns: ns})
		for _, addr := range z.serverAddrs() {
			a.Extra = append(a.Extra, address(ns, addr, z.ttl))
		}
	}
}

// fillService answers for a Service's name and those below it.
func (z *Zone) fillService(a *Answer, ask asked, at spot) {
	switch ask.qtype {
	case mdns.TypeA, mdns.TypeAAAA:
		if at.place == atPort {
			return // a port's name has no address: the specification gives it SRV alone
		}
		a.Answer = z.addresses(a.Answer, ask, at.addrs())
	case mdns.TypeSRV:
		z.fillPorts(a, ask, at)
	}
}

// fillPorts gives an SRV record for each port and target, and the targets' addresses.
// All targets are of priority 0 and equal weight.
func (z *Zone) fillPorts(a *Answer, ask asked, at spot) {
	base := at.svc.name + "." + at.svc.namespace + ".svc." + ask.domain
	weight := at.weight()
	var targets, given set[target]
	for t := range at.targets {
		name := under(t.label, base)
		if targets.add(target{label: t.label, number: t.number}) {
			a.Answer = append(a.Answer, &mdns.SRV{Hdr: header(ask.name, mdns.TypeSRV, z.ttl), Weight: weight, Port: t.number, Target: name})
		}
		if given.add(target{label: t.label, addr: t.addr}) {
			a.Extra = append(a.Extra, address(name, t.addr, z.ttl))
		}
	}
}

// follow answers for an ExternalName: an alias, whatever type is asked for (RFC 1034,
// 3.6.2), then what its target has if that is of the zone.
func (z *Zone) follow(a *Answer, ask asked, svc *service) bool {
	seen := map[*service]bool{}
	for {
		seen[svc] = true
		target := mdns.Fqdn(svc.alias)
		a.Answer = append(a.Answer, &mdns.CNAME{Hdr: header(ask.name, mdns.TypeCNAME, z.ttl), Target: target})
		if ask.qtype == mdns.TypeCNAME || ask.qtype == mdns.TypeANY {
			return true
		}
		rest, ok := z.below(strings.ToLower(target))
		if !ok {
			a.Chase = target
			return true
		}
		ask.name, ask.domain = target, target[len(target)-len(z.domain):]
		at := z.find(rest)
		if at.place != atService || at.svc.alias == "" {
			return z.fill(a, ask, at)
		}
		if svc = at.svc; seen[svc] || len(seen) > maxAliases {
			return false
		}
	}
}

// answerReverse answers for a name in in-addr.arpa or ip6.arpa. The zone has no more
// of these trees than the names of its own addresses.
func (z *Zone) answerReverse(ask asked, lower string, qclass uint16) Answer {
	addr, ok := reverseAddr(lower)
	if !ok {
		return Answer{}
	}
	names := z.namesOf(addr)
	if len(names) == 0 {
		return Answer{}
	}
	a := Answer{Ours: true}
	switch {
	case refused(ask.qtype, qclass):
		a.Rcode = mdns.RcodeRefused
	case ask.qtype == mdns.TypePTR:
		for _, name := range names {
			a.Answer = append(a.Answer, &mdns.PTR{Hdr: header(ask.name, mdns.TypePTR, z.ttl), Ptr: name})
		}
	default:
		a.Authority = []mdns.RR{z.soa(ask.name, z.domain)}
	}
	return a
}

// namesOf are the names that stand for an address: those of Services with it as
// ClusterIP, and of endpoints.
func (z *Zone) namesOf(addr netip.Addr) []string {
	key, ok := z.owners[addr]
	if !ok {
		return nil
	}
	names := z.services[key].namesOf(nil, addr, z.domain)
	for _, key := range z.shared[addr] {
		names = z.services[key].namesOf(names, addr, z.domain)
	}
	return names
}
