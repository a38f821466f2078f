package ipvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// When another backend takes over, its rules translate new flows before they come
// to a virtual server. The flows that go by IPVS do so until they end: the kernel
// has no way to hand them over. So virtual servers with connections stay, at weight
// 0, whatever their protocol, and with them all that leads packets to them: the
// address that is local, or for an address that is not the node's the way in, now by
// a rule of the routing policy for that address and port, because the rules that set
// marks are gone. What says that all this is ours stays too. The rest goes at once,
// and the last of it, kernel parameters among it, with the last connection or when
// the limit is over.

// Leftovers plans to remove what this backend made beside iptables rules: virtual
// servers, routes, sets and kernel parameters. It is for a node on which another
// backend is in use, whose rules have replaced ours. What carries connections drains
// first, which remarks tell; a later plan removes it. The plan is to be made and
// applied after those rules: until then connections come, and a set that a rule
// names cannot go. A kernel without IPVS holds nothing of ours: an empty plan.
func (b *Backend) Leftovers(ctx context.Context) (dataplane.Plan, error) {
	sides, err := b.readAll(ctx)
	if err != nil || sides == nil {
		return dataplane.Plans{}, err
	}
	all := &phase{}
	busy := false
	for _, s := range sides {
		want := leaving(s.have, b.config.DrainLimit)
		busy = busy || len(want.sets[addresses])+len(want.sets[ports])+len(want.sets[marks]) > 0
		all.steps = append(all.steps, leave(want, s.have)...)
		all.remarks = append(all.remarks, draining(want, s.have)...)
	}
	if busy {
		return dataplane.Plans{all}, nil
	}
	parameters, err := b.parameters(nil, false, Timeouts{})
	if err != nil {
		return nil, err
	}
	return append(dataplane.Plans{all}, parameters...), nil
}

// Depart plans what has to be there before the rules of another backend replace ours:
// the ways by key, for the connections to addresses that are not the node's.
func (b *Backend) Depart(ctx context.Context) (dataplane.Plan, error) {
	sides, err := b.readAll(ctx)
	if err != nil {
		return nil, err
	}
	ways := &phase{}
	for _, s := range sides {
		if s.have.sets[services] != nil { // else our rules are gone already
			ways.steps.raiseInbound(leaving(s.have, b.config.DrainLimit), s.have)
		}
	}
	return ways, nil
}

// RealServers returns who any virtual server sends to, ours or not; nobody in a kernel
// without IPVS.
func (b *Backend) RealServers(ctx context.Context) (map[netip.AddrPort]bool, error) {
	out := map[netip.AddrPort]bool{}
	k, err := openRequests()
	if errors.Is(err, dataplane.ErrUnsupported) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer k.close()
	list, err := k.listServers(ctx, 0)
	if err != nil {
		return nil, err
	}
	var real []realServer
	for _, v := range list {
		if real, err = k.readReal(ctx, v.serverID, real); err != nil {
			return nil, err
		}
		for _, r := range real {
			out[r.addr.addrPort()] = true
		}
	}
	return out, nil
}

// Discard is Leftovers without any regard for connections: they end. It is for a
// node that is to hold nothing of ours any more.
func (b *Backend) Discard(ctx context.Context) (dataplane.Plan, error) {
	return b.remove(ctx, func() (dataplane.Plan, error) { return dataplane.Plans{}, nil })
}

// readAll reads what there is of ours, wanted or not; nil in a kernel without IPVS.
func (b *Backend) readAll(ctx context.Context) ([]*side, error) {
	has := families()
	sides, err := b.read(ctx, has, b.targets(dataplane.Table{}, has), nil)
	if errors.Is(err, dataplane.ErrUnsupported) {
		return nil, nil
	}
	return sides, err
}

// leaving returns what is to stay of what is held while another backend is in use.
func leaving(have observed, limit time.Duration) target {
	t := target{family: have.family, leaving: true, drainLimit: limit}
	for k := range t.sets {
		t.sets[k] = members{}
	}
	lasting := map[uint32]bool{}
	for id, v := range have.servers {
		switch {
		case !have.owns(id) || !t.lingers(*v, have.now):
		case id.mark == 0:
			t.keepDoor(have, id.Key)
		default:
			lasting[id.mark] = true
			t.sets[marks][v.owner()] = v.service
		}
	}
	t.keepMarked(have, lasting)
	return t
}

// keepDoor keeps what makes the node take in the packets of a frontend.
func (t target) keepDoor(have observed, k dataplane.Key) {
	e := keyEntry(k)
	t.keep(have, addresses, entry{addr: k.Addr})
	t.keep(have, ports, e)
	if _, is := have.entries(brought)[e]; is {
		t.keep(have, brought, e)
		t.keep(have, arrivals, entry{addr: k.Addr})
	}
}

func (t target) keep(have observed, k setKind, e entry) {
	if _, held := have.entries(k)[e]; held {
		t.sets[k][e] = ""
	}
}

// keepMarked keeps the doors of virtual servers for marks. Where none is known any
// more, because it left its Service before, every door is kept.
func (t target) keepMarked(have observed, lasting map[uint32]bool) {
	known := map[uint32]bool{}
	for _, k := range []setKind{markPod, markNode, markOutside} {
		for e := range have.entries(k) {
			if lasting[e.mark] {
				known[e.mark], t.sets[k][e] = true, ""
				t.keepDoor(have, e.key())
			}
		}
	}
	if len(known) == len(lasting) {
		return
	}
	for _, k := range []setKind{addresses, ports, brought, arrivals} {
		for e := range have.entries(k) {
			t.sets[k][e] = ""
		}
	}
}

// leave returns the steps from what is held to what is to stay: the ways that
// replace those by mark, then the end of all that nobody needs.
func leave(want target, have observed) steps {
	var s steps
	s.raiseInbound(want, have)
	s.dropInbound(want, have)
	s.dropPolicies(want, have, true)
	s.dropRoutes(want.sets[addresses], have)
	s.reduce(services, want, have)
	s.dropServers(want, have)
	for _, k := range leavingSets() {
		s.reduce(k, want, have)
	}
	s.destroySpares(have)
	return s
}

// comeBack is what there is to do last where this backend has come into use again
// while connections were draining: the ways by mark have taken the place of the others.
func comeBack(sides []*side) *phase {
	end := &phase{}
	for _, s := range sides {
		s.end = nil
		s.end.dropPolicies(s.want, s.have, true)
		s.end.dropSources(s.want, s.have)
		end.steps = append(end.steps, s.end...)
	}
	return end
}

// dropSources takes the source out of routes that lead in packets with a mark only.
func (s *steps) dropSources(want target, have observed) {
	for _, e := range slices.SortedFunc(maps.Keys(want.sets[arrivals]), entry.compare) {
		if held := have.inbound[e.addr]; held.loopback && held.source.IsValid() {
			s.add(raiseRoute{addr: e.addr, exists: true, table: inboundTable}, dataplane.Change{Op: dataplane.Update,
				Object: "inbound route " + e.addr.String(), For: want.sets[arrivals][e], Reason: fmt.Sprintf("source %s, want none", held.source)})
		}
	}
}

// leavingSets are all other sets, those that say what is ours last.
func leavingSets() []setKind {
	var out []setKind
	own := []setKind{arrivals, ports, addresses, marks}
	for k := range setKinds {
		if k != services && !slices.Contains(own, k) {
			out = append(out, k)
		}
	}
	return append(out, own...)
}
