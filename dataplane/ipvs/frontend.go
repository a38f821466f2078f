package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// builder turns a table into a target.
type builder struct {
	*target
	table     dataplane.Table
	scheduler string
	marking   marking
	// numbers are the numbers of sets of endpoints.
	numbers map[uint32]string
	// marked are the virtual servers for marks that are made already.
	marked map[uint32]bool
	// used are the sets whose endpoints may reach themselves.
	used map[string]bool
}

// expand calls each with every frontend, but with one an address of the node in the
// place of a NodePort, unless another frontend has that address and port for itself.
func (b *builder) expand(each func(dataplane.Frontend)) {
	onLoopback := 0
	for _, fe := range b.table.Frontends {
		if fe.Kind != dataplane.NodePort {
			each(fe)
			continue
		}
		for _, a := range b.table.Node.Addrs {
			own := fe
			own.Addr = a
			switch other, taken := b.table.Frontend(own.Key); {
			case taken:
				b.entangled = b.entangled || !sameService(other.Service, fe.Service)
			case a.IsLoopback():
				onLoopback++
			default:
				each(own)
			}
		}
	}
	if onLoopback > 0 && b.family == dataplane.IPv4 { // over IPv6 no backend serves there
		b.remarks = append(b.remarks, fmt.Sprintf("%d node ports are not served on loopback addresses, because IPVS sends nothing on that comes from there: "+
			"use another address of the node, or another backend", onLoopback))
	}
}

// serviceOf is the Service of an origin, which may be one of its ports.
func serviceOf(origin string) string {
	name, _, _ := strings.Cut(origin, ":")
	return name
}

func sameService(a, b string) bool { return serviceOf(a) == serviceOf(b) }

// put puts an entry into a set.
func (b *builder) put(k setKind, e entry, origin string) {
	if before, is := b.sets[k][e]; is {
		b.share(k, e, serviceOf(before), serviceOf(origin))
	}
	b.sets[k][e] = origin
}

// share notes that a Service asks for an entry which another may have asked for.
func (b *builder) share(k setKind, e entry, first, service string) {
	all := b.shared[k][e]
	switch {
	case all == nil && first == service, slices.Contains(all, service):
		return
	case all == nil:
		all = []string{first}
	}
	if b.shared[k] == nil {
		b.shared[k] = map[entry][]string{}
	}
	b.shared[k][e] = append(all, service)
}

// leave notes what cannot be served, and why.
func (b *builder) leave(object, service, reason string) {
	b.leftOut = append(b.leftOut, leftOut{object, service, reason})
}

// frontend adds one frontend.
func (b *builder) frontend(fe dataplane.Frontend) {
	b.address(fe)
	b.limit(fe)
	routes := make([]dataplane.Route, 0, dataplane.Sources)
	for _, s := range b.classes.all() {
		r := fe.Routes[s]
		set, ok := b.table.Set(r.Set)
		if r.Verdict == dataplane.Forward && !ok {
			b.leave("frontend "+fe.Key.String(), fe.Service, fmt.Sprintf("its endpoint set %q is not in the table", r.Set))
			return
		}
		b.entangled = b.entangled || ok && !sameService(set.Service, fe.Service)
		routes = append(routes, r)
	}
	verdicts := func(v dataplane.Verdict) bool {
		return slices.ContainsFunc(routes, func(r dataplane.Route) bool { return r.Verdict == v })
	}
	forward, refuse, drop := verdicts(dataplane.Forward), verdicts(dataplane.Refuse), verdicts(dataplane.Drop)
	switch {
	case !forward && !drop:
		// No virtual server and not in set services: the rules refuse it.
	case !forward && !refuse:
		b.put(dropped, keyEntry(fe.Key), fe.Service)
	default:
		b.verdicts(fe)
	}
	if forward {
		b.serve(fe)
	}
}

// address notes at what address the frontend is.
func (b *builder) address(fe dataplane.Frontend) {
	holds := func(r netip.Prefix) bool { return r.Contains(fe.Addr) }
	service := serviceOf(fe.Service) // its ports share the address
	switch {
	case fe.Kind == dataplane.NodePort:
		b.put(ports, keyEntry(fe.Key), fe.Service)
	case slices.ContainsFunc(b.node.ServiceRanges, holds):
		b.put(addresses, entry{addr: fe.Addr}, service)
	default:
		b.put(ports, keyEntry(fe.Key), fe.Service)
		b.put(brought, keyEntry(fe.Key), fe.Service)
		b.put(arrivals, entry{addr: fe.Addr}, service)
	}
}

// limit adds the ranges of sources of a frontend that not all may use.
func (b *builder) limit(fe dataplane.Frontend) {
	if fe.Allowed == nil || slices.ContainsFunc(fe.Allowed, everything) {
		return
	}
	b.put(restricted, keyEntry(fe.Key), fe.Service)
	for _, r := range fe.Allowed {
		e := keyEntry(fe.Key)
		e.source = r.Masked().Addr()
		if !r.IsSingleIP() {
			e.bits = uint8(r.Bits())
		}
		b.put(allowed, e, fe.Service)
	}
}

// verdicts notes the classes of sources whose packets go nowhere.
func (b *builder) verdicts(fe dataplane.Frontend) {
	note := func(k setKind) { b.put(k, keyEntry(fe.Key), fe.Service) }
	for _, s := range b.classes.incoming {
		switch v := fe.Routes[s].Verdict; {
		case v == dataplane.Drop && s == dataplane.FromPod:
			note(dropPod)
		case v == dataplane.Drop:
			note(dropOutside)
		case v == dataplane.Refuse && s == dataplane.FromPod:
			note(refusePod)
		case v == dataplane.Refuse:
			note(refuseOutside)
		}
	}
	if fe.Routes[b.classes.own].Verdict == dataplane.Drop {
		note(dropNode)
	}
}

// serve adds the virtual servers of a frontend that forwards.
func (b *builder) serve(fe dataplane.Frontend) {
	b.put(services, keyEntry(fe.Key), fe.Service)
	base := b.base(fe)
	set, _ := b.table.Set(base)
	b.servers = append(b.servers, newServer(fe, set, b.scheduler))
	for _, s := range b.classes.incoming {
		r := fe.Routes[s]
		switch {
		case r.Verdict != dataplane.Forward:
		case s == dataplane.FromPod && r.Masquerade:
			b.put(masqueraded, keyEntry(fe.Key), fe.Service)
		case s != dataplane.FromPod && !r.Masquerade:
			b.put(kept, keyEntry(fe.Key), fe.Service)
		}
		k := markPod
		if s != dataplane.FromPod {
			k = markOutside
		}
		b.choose(fe, r, base, k)
	}
	own := fe.Routes[b.classes.own]
	switch own.Verdict {
	case dataplane.Forward:
		if !own.Masquerade {
			b.put(keptNode, keyEntry(fe.Key), fe.Service)
		}
		b.choose(fe, own, base, markNode)
	case dataplane.Refuse:
		b.put(refuseNode, keyEntry(fe.Key), fe.Service)
	}
}

// base returns the set that the virtual server gets which is dialled: mostly
// that of Pods. With affinity it is that of clients outside, because only a
// virtual server that is dialled can remember clients.
func (b *builder) base(fe dataplane.Frontend) string {
	order := b.classes.all()
	for _, s := range order {
		if set, ok := b.table.Set(fe.Routes[s].Set); ok && set.Affinity > 0 {
			slices.Reverse(order[:len(b.classes.incoming)])
			break
		}
	}
	for _, s := range order {
		if r := fe.Routes[s]; r.Verdict == dataplane.Forward {
			b.used[r.Set] = true
		}
	}
	at := slices.IndexFunc(order, func(s dataplane.Source) bool { return fe.Routes[s].Verdict == dataplane.Forward })
	return fe.Routes[order[at]].Set
}

// choose sends a class of sources to a set of endpoints that is not the one of
// the virtual server which they dial.
func (b *builder) choose(fe dataplane.Frontend, r dataplane.Route, base string, k setKind) {
	if r.Verdict != dataplane.Forward || r.Set == base {
		return
	}
	set, _ := b.table.Set(r.Set)
	mark := b.marking.mark(b.number(set.Name), r.Masquerade)
	b.marks(fe, k, newMarkedServer(b.markID(mark), set, b.scheduler))
}

// marks gives the packets of a frontend the mark of a virtual server.
func (b *builder) marks(fe dataplane.Frontend, k setKind, v virtualServer) {
	e := keyEntry(fe.Key)
	e.mark = v.mark
	b.put(k, e, fe.Service)
	if b.marked[v.mark] {
		return
	}
	b.marked[v.mark], v.dialled = true, fe.Key
	b.servers = append(b.servers, v)
	b.put(marks, v.owner(), v.service)
}

// number returns the number of a set of endpoints.
func (b *builder) number(set string) uint32 {
	n, first := numberOf(set, b.numbers)
	b.entangled = b.entangled || !first
	return n
}

func (b *builder) markID(mark uint32) serverID {
	return serverID{dataplane.Key{Addr: unspecified(b.family)}, mark}
}

// hairpin adds the endpoints that may reach themselves.
func (b *builder) hairpin() {
	for _, set := range b.table.Sets {
		if !b.used[set.Name] {
			continue
		}
		for _, ep := range set.Endpoints {
			if ep.Local {
				a := ep.Addr.Addr()
				b.put(hairpin, entry{addr: a, protocol: set.Protocol, port: ep.Addr.Port(), source: a}, set.Service)
			}
		}
	}
}
