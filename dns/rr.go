package dns

import (
	"iter"
	"net/netip"
	"slices"

	mdns "github.com/miekg/dns"
)

func header(name string, rtype uint16, ttl uint32) mdns.RR_Header {
	return mdns.RR_Header{Name: name, Rrtype: rtype, Class: mdns.ClassINET, Ttl: ttl}
}

// recordA and recordAAAA hold the address beside the record: one allocation for both.
type (
	recordA struct {
		rr mdns.A
		ip [4]byte
	}
	recordAAAA struct {
		rr mdns.AAAA
		ip [16]byte
	}
)

// address is the A or AAAA record of a name.
func address(name string, addr netip.Addr, ttl uint32) mdns.RR {
	if addr.Is4() {
		r := &recordA{rr: mdns.A{Hdr: header(name, mdns.TypeA, ttl)}, ip: addr.As4()}
		r.rr.A = r.ip[:]
		return &r.rr
	}
	r := &recordAAAA{rr: mdns.AAAA{Hdr: header(name, mdns.TypeAAAA, ttl)}, ip: addr.As16()}
	r.rr.AAAA = r.ip[:]
	return &r.rr
}

// addresses appends a record for each address of the family that is asked for.
func addresses(rrs []mdns.RR, addrs iter.Seq[netip.Addr], ask asked, ttl uint32) []mdns.RR {
	for addr := range addrs {
		if addr.Is4() && ask.qtype == mdns.TypeA || !addr.Is4() && ask.qtype == mdns.TypeAAAA {
			rrs = append(rrs, address(ask.name, addr, ttl))
		}
	}
	return rrs
}

// soa is the zone's, for an owner and a domain in the case of the question.
func (z *Zone) soa(owner, domain string) mdns.RR {
	return &mdns.SOA{
		Hdr:     header(owner, mdns.TypeSOA, min(z.ttl, maxSOATTL)),
		Ns:      "ns.dns." + domain,
		Mbox:    "hostmaster." + domain,
		Serial:  z.serial,
		Refresh: 7200,
		Retry:   1800,
		Expire:  86400,
		Minttl:  z.ttl,
	}
}

// target is one address and port that SRV records lead to.
type target struct {
	label  string // of the endpoint; "" for the Service itself
	addr   netip.Addr
	number uint16
}

// targetsAt are the targets of a Service's, a port's or an endpoint's name.
func (s *service) targetsAt(at spot) iter.Seq[target] {
	return func(yield func(target) bool) {
		if at.place != atEndpoint && !s.headless {
			for _, p := range s.ports {
				for _, vip := range s.vips {
					if at.wants(p) && !yield(target{addr: vip, number: p.number}) {
						return
					}
				}
			}
			return
		}
		for e := range s.endpointsAt(at) {
			label := ""
			for _, p := range e.in.ports {
				if !at.wants(p) {
					continue
				}
				if label == "" {
					label = e.label()
				}
				if !yield(target{label, e.addr, p.number}) {
					return
				}
			}
		}
	}
}

// weightAt is the weight of each of these targets.
func (s *service) weightAt(at spot) uint16 {
	n := 0
	if at.place != atEndpoint && !s.headless {
		n = at.count(s.ports) * len(s.vips)
	} else {
		for e := range s.endpointsAt(at) {
			n += at.count(e.in.ports)
		}
	}
	return uint16(max(1, 100/max(1, n)))
}

// count is how many of these ports are wanted. No port at all counts as one.
func (at spot) count(ports []port) int {
	n := 0
	for _, p := range ports {
		if at.wants(p) {
			n++
		}
	}
	if len(ports) == 0 && at.place != atPort {
		return 1
	}
	return n
}

// wants says whether a port belongs to the name: all do to names of Services and
// endpoints.
func (at spot) wants(p port) bool {
	return at.place != atPort || p.name == at.label && p.protocol == at.protocol
}

// endpointsAt are the endpoints that a name stands for.
func (s *service) endpointsAt(at spot) iter.Seq[endpoint] {
	if at.place == atEndpoint {
		return s.named(at.label)
	}
	return s.endpoints()
}

// addrsAt are the addresses of a Service's or an endpoint's name.
func (s *service) addrsAt(at spot) iter.Seq[netip.Addr] {
	if at.place == atService && !s.headless {
		return slices.Values(s.vips)
	}
	return func(yield func(netip.Addr) bool) {
		for e := range s.endpointsAt(at) {
			if !yield(e.addr) {
				return
			}
		}
	}
}

// namesOf appends the names that stand for an address, each once.
func (s *service) namesOf(names []string, addr netip.Addr, domain string) []string {
	if !s.exists {
		return names
	}
	base := s.name + "." + s.namespace + ".svc." + domain
	if slices.Contains(s.vips, addr) {
		names = append(names, base)
	}
	for e := range s.endpoints() {
		if e.addr != addr {
			continue
		}
		if name := e.label() + "." + base; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// distinct leaves out repetitions.
func distinct[T comparable](seq iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		var seen set[T]
		for v := range seq {
			if seen.add(v) && !yield(v) {
				return
			}
		}
	}
}

// set is a set of few or many: it hashes only when there are many.
type set[T comparable] struct {
	few  []T
	many map[T]struct{}
}

const fewest = 16

// add says whether the value is new.
func (s *set[T]) add(v T) bool {
	if s.many == nil && slices.Contains(s.few, v) {
		return false
	}
	if s.many == nil && len(s.few) < fewest {
		s.few = append(s.few, v)
		return true
	}
	if s.many == nil {
		s.many = make(map[T]struct{}, 2*fewest)
		for _, f := range s.few {
			s.many[f] = struct{}{}
		}
	}
	if _, ok := s.many[v]; ok {
		return false
	}
	s.many[v] = struct{}{}
	return true
}
