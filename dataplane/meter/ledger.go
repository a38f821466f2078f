package meter

import (
	"hash/maphash"
	"maps"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
)

// Ledger adds up what flows carry, by Service port. It has no clock and does no
// I/O. It is not safe for concurrent use.
type Ledger struct {
	seed  maphash.Seed
	doors doors
	// flows are the living ones of which something has been added up. Over are those
	// that both sides have done with, by the last dump that had them: the kernel
	// remembers them for two minutes, so they are many, and carry nothing any more.
	flows map[uint64]entry
	over  map[uint64]uint32
	// round numbers the dumps. Begun: the first has come to its end, and what it did
	// not have has come after it. Known: there is a table.
	round        uint32
	begun, known bool
	// before are the flows of the first dump, with what they had carried, until a dump
	// comes that can tell whose they are.
	before map[uint64]volumes
	// lost flows ended without a word; uncounted ones came without a count.
	lost, uncounted uint64
}

// volumes are what a flow has carried each way.
type volumes struct{ sent, answered conntrack.Volume }

// entry is what a ledger has of a living flow.
type entry struct {
	to *account
	// at is the part of the endpoint in it.
	at *part
	volumes
	// seen is the last dump that had it.
	seen uint32
	// older than the ledger: its end is not always told.
	older bool
}

// account is what a Service port has carried.
type account struct {
	key   accountKey
	total part
	parts map[netip.AddrPort]*part
	// doors is how many frontends lead to it: without any it is forgotten.
	doors int
	// names are the endpoints of the Service port by address.
	names map[netip.AddrPort]string
}

type accountKey struct {
	service  string
	protocol dataplane.Protocol
}

// part is what one endpoint has of an account, or all of them.
type part struct {
	Count
	// next is what Active will be when the dump has come to its end.
	next int
}

// settle makes a dump's number of active flows the one that is shown.
func (p *part) settle() { p.Active, p.next = p.next, 0 }

// NewLedger returns a ledger that knows no Service.
func NewLedger() *Ledger {
	return &Ledger{seed: maphash.MakeSeed(), doors: newDoors(), flows: map[uint64]entry{}, over: map[uint64]uint32{}, before: map[uint64]volumes{}}
}

// Set makes the ledger know just the frontends of a table. Service ports that are
// in it already go on.
func (l *Ledger) Set(t dataplane.Table) {
	l.doors.node = addresses(t.Node.Addrs)
	l.doors.replace(l.doors.all(), t.Frontends, t.Sets)
	l.known = true
}

// Change makes the ledger follow a change of the table.
func (l *Ledger) Change(d dataplane.Delta) {
	l.doors.replace(d.Before.Frontends, d.After.Frontends, d.After.Sets)
}

// BeginDump begins a dump; hand all its flows to Saw.
func (l *Ledger) BeginDump() { l.round++ }

// Saw takes note of a flow of a dump.
func (l *Ledger) Saw(f conntrack.Counted) {
	id := l.identity(f.Flow)
	if !l.known {
		if !l.begun {
			l.before[id] = volumes{f.Sent, f.Answered}
		}
		return
	}
	if _, done := l.over[id]; done {
		if f.Over {
			l.over[id] = l.round
			return
		}
		delete(l.over, id)
	}
	e, known := l.flows[id]
	if known && (f.Sent.Less(e.sent) || f.Answered.Less(e.answered)) {
		known = false // another flow, with the number of one whose end was not heard
		l.lost++
	}
	if known {
		e.add(f)
	} else if e = l.open(id, f); e.to == nil {
		return
	}
	if f.Over {
		delete(l.flows, id)
		l.over[id] = l.round
		return
	}
	e.to.total.next++
	e.at.next++
	e.seen = l.round
	l.flows[id] = e
}

// open makes the entry of a flow that is new to the ledger; one without an account
// when it is nobody's.
func (l *Ledger) open(id uint64, f conntrack.Counted) entry {
	a := l.doors.of(f.Flow)
	if a == nil || !f.Translated() {
		return entry{}
	}
	e := entry{to: a, at: a.part(f.Endpoint())}
	e.volumes, e.older = l.before[id]
	switch {
	case e.older:
		e.add(f)
		return e
	case !l.begun:
		e.volumes, e.older = volumes{f.Sent, f.Answered}, true
		return e
	}
	e.to.total.Connections++
	e.at.Connections++
	if f.Sent.Packets == 0 {
		l.uncounted++
	}
	e.add(f)
	return e
}

// add adds what a flow has carried since it was seen last.
func (e *entry) add(f conntrack.Counted) {
	in, out := f.Sent.Since(e.sent), f.Answered.Since(e.answered)
	e.to.total.add(in, out)
	e.at.add(in, out)
	e.volumes = volumes{f.Sent, f.Answered}
}

// Ended takes note of a flow that has ended, with its last count.
func (l *Ledger) Ended(f conntrack.Counted) {
	id := l.identity(f.Flow)
	e, known := l.flows[id]
	_, done := l.over[id]
	_, before := l.before[id]
	switch {
	case done, before:
		delete(l.over, id)
		delete(l.before, id)
	case known && !f.Sent.Less(e.sent) && !f.Answered.Less(e.answered):
		e.add(f)
		delete(l.flows, id)
	case l.begun && !known:
		l.open(id, f)
	}
}

// EndDump comes after the last flow of a dump, once the ends that were told while
// it lasted have been handed to Ended. A flow that two dumps in a row have not had
// has ended without a word: it is counted as lost, unless it is older than the
// ledger. One dump will not do: the kernel may leave out an entry next to one that
// goes just then.
func (l *Ledger) EndDump() {
	l.begun = true
	if l.known {
		clear(l.before)
	}
	for id, e := range l.flows {
		if e.seen+1 >= l.round {
			continue
		}
		if !e.older {
			l.lost++
		}
		delete(l.flows, id)
	}
	maps.DeleteFunc(l.over, func(_ uint64, seen uint32) bool { return seen+1 < l.round })
	for _, a := range l.doors.accounts {
		a.total.settle()
		maps.DeleteFunc(a.parts, func(at netip.AddrPort, p *part) bool {
			p.settle()
			_, named := a.names[at]
			return !named && p.Active == 0
		})
	}
}

// Lost is the number of flows whose last count is not known.
func (l *Ledger) Lost() uint64 { return l.lost }

// Lines returns what all Service ports of the table have carried, sorted.
func (l *Ledger) Lines() []Line {
	out := make([]Line, 0, len(l.doors.accounts))
	for k, a := range l.doors.accounts {
		out = append(out, Line{Service: k.service, Protocol: k.protocol, Count: a.total.Count, Endpoints: a.endpoints()})
	}
	slices.SortFunc(out, Line.Compare)
	return out
}

func (a *account) endpoints() []Endpoint {
	out := make([]Endpoint, 0, len(a.names))
	for at, name := range a.names {
		e := Endpoint{Addr: at, Name: name}
		if p := a.parts[at]; p != nil {
			e.Count = p.Count
		}
		out = append(out, e)
	}
	for at, p := range a.parts {
		if _, named := a.names[at]; !named {
			out = append(out, Endpoint{Addr: at, Count: p.Count})
		}
	}
	slices.SortFunc(out, func(a, b Endpoint) int { return a.Addr.Compare(b.Addr) })
	return out
}

// part returns the part of an endpoint.
func (a *account) part(at netip.AddrPort) *part {
	p := a.parts[at]
	if p == nil {
		p = &part{}
		a.parts[at] = p
	}
	return p
}

// identity is a number for a flow. The kernel's own has 32 bits: of some hundred
// thousand flows two would have the same.
func (l *Ledger) identity(f conntrack.Flow) uint64 {
	return maphash.Comparable(l.seed, identity{f.Protocol, f.Original, f.ID})
}

type identity struct {
	protocol dataplane.Protocol
	original conntrack.Tuple
	number   uint32
}
