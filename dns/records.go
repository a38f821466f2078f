package dns

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/cluster"
)

// record is a record as a value that can be compared; texts are made of the few that
// somebody sees.
type record struct {
	// owner and target are names without the domain, but for the target of an alias
	// and the owner of a PTR record, which is addr.
	owner, target string
	rtype         uint16
	addr          netip.Addr
	port, weight  uint16
}

// records is a set of them.
type records map[record]struct{}

func (rs records) add(r record) { rs[r] = struct{}{} }

// addAll adds another set, and returns the sum of both.
func (rs records) addAll(more records) records {
	if len(rs) == 0 {
		return more
	}
	maps.Copy(rs, more)
	return rs
}

// recordsOf are all records of a Service.
func (z *Zone) recordsOf(s *service) records {
	if !s.exists || s.external && s.alias == "" {
		return nil
	}
	base := s.name + "." + s.namespace + ".svc"
	if s.alias != "" {
		return records{{owner: base, rtype: mdns.TypeCNAME, target: mdns.Fqdn(s.alias)}: {}}
	}
	out := make(records, 4*s.total()+4) // with one port, about
	for _, at := range s.spots() {
		owner := at.below() + base
		if at.place == atService {
			for _, addr := range at.addrs() {
				out.add(record{owner: owner, rtype: rtype(addr), addr: addr})
			}
		}
		weight := at.weight()
		for t := range at.targets {
			out.add(record{owner: owner, rtype: mdns.TypeSRV, target: under(t.label, base), port: t.number, weight: weight})
		}
	}
	z.virtualRecords(s, base, out)
	s.endpointRecords(base, out)
	return out
}

// virtualRecords adds the names of ClusterIPs, and those that a server has by its Service.
func (z *Zone) virtualRecords(s *service, base string, out records) {
	for _, vip := range s.vips {
		out.add(record{rtype: mdns.TypePTR, addr: vip, target: base})
		if len(z.server) == 0 && s.is(defaultServer) {
			out.add(record{owner: "ns.dns", rtype: rtype(vip), addr: vip})
		}
	}
}

// endpointRecords adds those at the names of endpoints. A label may stand for several.
func (s *service) endpointRecords(base string, out records) {
	at, ports := spot{place: atEndpoint}, map[string]int{}
	for e := range s.endpoints {
		ports[e.label()] += at.count(e.in.ports)
	}
	for e := range s.endpoints {
		label := e.label()
		owner := under(label, base)
		out.add(record{owner: owner, rtype: rtype(e.addr), addr: e.addr})
		out.add(record{rtype: mdns.TypePTR, addr: e.addr, target: owner})
		for _, p := range e.in.ports {
			out.add(record{owner: owner, rtype: mdns.TypeSRV, target: owner, port: p.number, weight: share(ports[label])})
		}
	}
}

// under puts an endpoint's label before its Service's name.
func under(label, base string) string {
	if label == "" {
		return base
	}
	return label + "." + base
}

func (s *set[T]) values() []T {
	if s.many == nil {
		return s.few
	}
	return slices.Collect(maps.Keys(s.many))
}

// below is what stands left of the Service's name.
func (at spot) below() string {
	if at.place == atPort {
		return "_" + at.label + "._" + at.protocol + "."
	}
	return ""
}

// spots are the Service's own name and its ports'.
func (s *service) spots() []spot {
	var names set[spot]
	if s.shown() {
		names.add(spot{place: atService, svc: s})
	}
	add := func(ports []port) {
		for _, p := range ports {
			if p.name != "" && s.hasPort(p.name, p.protocol) {
				names.add(spot{place: atPort, svc: s, label: p.name, protocol: p.protocol})
			}
		}
	}
	if !s.headless {
		add(s.ports)
		return names.values()
	}
	for _, sl := range s.slices {
		add(sl.ports)
	}
	return names.values()
}

// podRecord is that of a Pod's address, or nothing if there is no such Pod.
func (z *Zone) podRecord(namespace string, addr netip.Addr) records {
	if z.pods[podAddr{namespace, addr}] == 0 {
		return nil
	}
	return records{{owner: podLabel(addr) + "." + namespace + ".pod", rtype: rtype(addr), addr: addr}: {}}
}

// text writes a record as a zone file has it.
func (z *Zone) text(r record) string {
	owner := r.owner + "." + z.domain
	switch r.rtype {
	case mdns.TypeA, mdns.TypeAAAA:
		return fmt.Sprintf("%s %d IN %s %s", owner, z.ttl, mdns.Type(r.rtype), r.addr)
	case mdns.TypeSRV:
		return fmt.Sprintf("%s %d IN SRV 0 %d %d %s.%s", owner, z.ttl, r.weight, r.port, r.target, z.domain)
	case mdns.TypeCNAME:
		return fmt.Sprintf("%s %d IN CNAME %s", owner, z.ttl, r.target)
	}
	return fmt.Sprintf("%s %d IN PTR %s.%s", reverseName(r.addr), z.ttl, r.target, z.domain)
}

// difference returns the Change from one set of records to another, or nil.
func (z *Zone) difference(ref cluster.Ref, before, after records) *Change {
	c := Change{Object: ref, Added: z.without(after, before), Removed: z.without(before, after)}
	if len(c.Added)+len(c.Removed) == 0 {
		return nil
	}
	return &c
}

// without are the texts of the records of a that are not in b, sorted.
func (z *Zone) without(a, b records) []string {
	var out []string
	for r := range a {
		if _, ok := b[r]; !ok {
			out = append(out, z.text(r))
		}
	}
	slices.Sort(out)
	return out
}

// Records are all records of the zone, as text, sorted: those of its objects in the
// form of Change, and the zone's own.
func (z *Zone) Records() []string {
	z.mu.RLock()
	defer z.mu.RUnlock()
	out := []string{
		strings.Join(strings.Fields(z.soa(z.domain, z.domain).String()), " "),
		fmt.Sprintf("%s %d IN NS ns.dns.%s", z.domain, z.ttl, z.domain),
		fmt.Sprintf("dns-version.%s %d IN TXT %q", z.domain, schemaTTL, schema),
	}
	for _, addr := range z.server {
		out = append(out, z.text(record{owner: "ns.dns", rtype: rtype(addr), addr: addr}))
	}
	for _, s := range z.services {
		for r := range z.recordsOf(s) {
			out = append(out, z.text(r))
		}
	}
	for p := range z.pods {
		for r := range z.podRecord(p.namespace, p.addr) {
			out = append(out, z.text(r))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
