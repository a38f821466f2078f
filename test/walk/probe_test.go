package walk

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

const (
	// atOnce is the longest a refusal may take: less than the second after which
	// a client sends its SYN again.
	atOnce = 700 * time.Millisecond
	// patience is how long a probe that ought to be dropped waits.
	patience = 200 * time.Millisecond
)

// foreign is an address of the client outside that is in other source ranges
// than its first one.
func foreign(f dataplane.Family) netip.Addr {
	if f == dataplane.IPv6 {
		return netip.MustParseAddr("fd00:198:18::5")
	}
	return netip.MustParseAddr("198.18.0.5")
}

// newTown builds the lab, with a server on every port of every Pod.
func newTown(t *testing.T) *lab.Lab {
	t.Helper()
	l := lab.New(t, lab.WithPods(podsHere), lab.SecondNode())
	for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
		l.Outside.AddAddr("lan0", netip.PrefixFrom(foreign(f), f.Bits()))
	}
	for _, h := range append(slices.Clone(l.Pods), l.Remote) {
		h.Serve(dataplane.TCP, 8080)
		h.Serve(dataplane.TCP, 8081)
		h.Serve(dataplane.UDP, 5353)
		if lab.SCTP.Missing() == nil {
			h.Serve(dataplane.SCTP, 9000)
		}
	}
	return l
}

// draw draws a packet to a frontend of the table, or to where one was or could
// be.
func (w *world) draw(l *lab.Lab, t dataplane.Table) packet {
	to := dataplane.Key{Addr: netip.AddrFrom4([4]byte{10, 96, 0, byte(10 + w.IntN(mostServices))}), Protocol: dataplane.TCP, Port: one[uint16](w, 80, 81, 82)}
	if w.chance(30) {
		to.Protocol, to.Port = dataplane.UDP, 53
	}
	if w.chance(50) {
		to.Addr = twin(to.Addr)
	}
	if len(t.Frontends) > 0 && w.chance(85) {
		to = t.Frontends[w.IntN(len(t.Frontends))].Key
	}
	f := dataplane.FamilyOf(to.Addr)
	if to.Addr.IsUnspecified() {
		to.Addr = nodeAddrs()[0]
		if f == dataplane.IPv6 {
			to.Addr = nodeAddrs()[1]
		}
	}
	from := one(w, append(slices.Clone(l.Pods), l.Node, l.Outside, l.Outside)...)
	p := packet{from: from, source: from.Addr(f), to: to}
	switch from {
	case l.Node:
		p.class, p.source = dataplane.FromNode, netip.Addr{}
	case l.Outside:
		p.class = dataplane.FromOutside
		if w.chance(50) {
			p.source = foreign(f)
		}
	}
	return p
}

// probe sends a packet and returns what is wrong with its fate.
func probe(l *lab.Lab, p packet, want fate) error {
	switch want.verdict {
	case dataplane.Refuse:
		o := lab.Probe(p.from, p.to.Protocol, netip.AddrPortFrom(p.to.Addr, p.to.Port), lab.Options{From: p.source, Timeout: 2 * atOnce})
		if o.Fate != lab.Refused || o.Took > atOnce {
			return fmt.Errorf("%s after %v, want refused at once", o, o.Took.Round(time.Millisecond))
		}
		return nil
	case dataplane.Drop:
		o := lab.Probe(p.from, p.to.Protocol, netip.AddrPortFrom(p.to.Addr, p.to.Port), lab.Options{From: p.source, Timeout: patience})
		if o.Fate != lab.Timeout {
			return fmt.Errorf("%s, want dropped", o)
		}
		return nil
	}
	first := ""
	for range 2 {
		o := lab.Probe(p.from, p.to.Protocol, netip.AddrPortFrom(p.to.Addr, p.to.Port), lab.Options{From: p.source, Timeout: 10 * time.Second})
		if err := judge(l, p, want, o); err != nil {
			return err
		}
		if want.sticky && first != "" && o.Name() != first {
			return fmt.Errorf("%s, want the same as before, %s", o, first)
		}
		first = o.Name()
	}
	return nil
}

// judge says what is wrong with an answer: with who gave it, or the source seen.
func judge(l *lab.Lab, p packet, want fate, o lab.Outcome) error {
	at := slices.IndexFunc(want.endpoints, func(e dataplane.Endpoint) bool { return e.Addr == o.Local })
	if o.Fate != lab.OK || at < 0 {
		return fmt.Errorf("%s, want %s", o, want)
	}
	rewritten := want.masquerade || o.Local.Addr() == p.source
	node := p.class == dataplane.FromNode
	switch seen := o.Peer.Addr(); {
	case (rewritten || node) && !l.Node.Owns(seen):
		return fmt.Errorf("%s: source %s seen, want an address of the node", o, seen)
	case !rewritten && !node && seen != p.source:
		return fmt.Errorf("%s: source %s seen, want the client's own", o, seen)
	}
	return nil
}
