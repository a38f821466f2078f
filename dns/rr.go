package dns

import (
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

func (r *recordA) set(name string, addr netip.Addr, ttl uint32) mdns.RR {
	r.rr.Hdr, r.ip = header(name, mdns.TypeA, ttl), addr.As4()
	r.rr.A = r.ip[:]
	return &r.rr
}

func (r *recordAAAA) set(name string, addr netip.Addr, ttl uint32) mdns.RR {
	r.rr.Hdr, r.ip = header(name, mdns.TypeAAAA, ttl), addr.As16()
	r.rr.AAAA = r.ip[:]
	return &r.rr
}

// address is the A or AAAA record of a name.
func address(name string, addr netip.Addr, ttl uint32) mdns.RR {
	if addr.Is4() {
		return new(recordA).set(name, addr, ttl)
	}
	return new(recordAAAA).set(name, addr, ttl)
}

// addresses appends the records of the family that is asked for: of many, made in two
// allocations.
func (z *Zone) addresses(rrs []mdns.RR, ask asked, addrs []netip.Addr) []mdns.RR {
	n := 0
	for _, addr := range addrs {
		if rtype(addr) == ask.qtype {
			n++
		}
	}
	if n == 0 {
		return rrs
	}
	rrs = slices.Grow(rrs, n)
	if ask.qtype == mdns.TypeA {
		made := make([]recordA, 0, n)
		for _, addr := range addrs {
			if addr.Is4() {
				made = append(made, recordA{})
				rrs = append(rrs, made[len(made)-1].set(ask.name, addr, z.ttl))
			}
		}
		return rrs
	}
	made := make([]recordAAAA, 0, n)
	for _, addr := range addrs {
		if !addr.Is4() {
			made = append(made, recordAAAA{})
			rrs = append(rrs, made[len(made)-1].set(ask.name, addr, z.ttl))
		}
	}
	return rrs
}

// rtype is the type of an address's records.
func rtype(addr netip.Addr) uint16 {
	if addr.Is4() {
		return mdns.TypeA
	}
	return mdns.TypeAAAA
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

// namesOf appends the names that stand for an address, each once.
func (s *service) namesOf(names []string, addr netip.Addr, domain string) []string {
	if !s.exists {
		return names
	}
	base := s.name + "." + s.namespace + ".svc." + domain
	if slices.Contains(s.vips, addr) {
		names = append(names, base)
	}
	for e := range s.endpoints {
		if e.addr != addr {
			continue
		}
		if name := e.label() + "." + base; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
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
