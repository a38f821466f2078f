package nftables

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Walk follows a packet through the rules that a table asks for. Pure.
func (b *Backend) Walk(t dataplane.Table, p dataplane.Packet) (dataplane.Trace, error) {
	return newWalker(build(t, dataplane.FamilyOf(p.Addr))).walk(p), nil
}

// walker follows the rules as the kernel does, but takes every chance at once:
// a packet that draws lots is divided into parts.
type walker struct {
	family dataplane.Family
	chains map[string]chain
	// hooks are the base chains by the hook that calls them.
	hooks  map[string]chain
	sets   map[string]map[string]element
	ranges map[string][]element
	packet dataplane.Packet
	trace  dataplane.Trace
	// hook is the one that the packet is at.
	hook string
	// out are the parts that have a new destination.
	out []part
}

// part is a part of a packet.
type part struct {
	share float64
	mark  uint32
	// to is where it goes once it has another destination.
	to          netip.AddrPort
	masqueraded bool
	// rules is how many rules it was compared with, depth how many chains lead
	// to where it is.
	rules, depth int
}

// deepest is how many chains may lead to each other; the kernel allows fewer.
const deepest = 64

func newWalker(l layout) *walker {
	w := &walker{family: l.family, chains: map[string]chain{}, hooks: map[string]chain{},
		sets: map[string]map[string]element{}, ranges: map[string][]element{}}
	for _, c := range l.chains {
		w.chains[c.name] = c
		if c.isBase() {
			w.hooks[c.hook.name] = c
		}
	}
	for _, s := range l.sets {
		w.sets[s.name] = make(map[string]element, s.len())
		for e := range s.all() {
			w.sets[s.name][e.key] = e
		}
		if s.kind == ranges {
			w.ranges[s.name] = s.elements
		}
	}
	return w
}

// walk sends a packet through the hooks. A walker may be used again.
func (w *walker) walk(p dataplane.Packet) dataplane.Trace {
	w.packet, w.out = p, nil
	notes := w.trace.Notes
	w.trace = dataplane.Trace{Notes: notes}
	first := atPrerouting
	if p.In == "" {
		first = atOutput
	}
	at, through := w.base(first.name, part{share: 1})
	if through {
		if at, through = w.base(atPostrouting.name, at); through {
			w.end(dataplane.Passed, at)
		}
	}
	for _, at := range w.out {
		if at, through := w.base(atPostrouting.name, at); through {
			w.end(dataplane.Delivered, at)
		}
	}
	w.trace.Sort()
	return w.trace
}

// base sends a part through a base chain, if there is one.
func (w *walker) base(name string, at part) (part, bool) {
	w.hook = name
	c, ok := w.hooks[name]
	if !ok {
		return at, true
	}
	return w.chain(c.name, at)
}

// end notes what became of a part.
func (w *walker) end(f dataplane.Fate, at part) {
	o := dataplane.Outcome{Fate: f, Share: at.share}
	if f == dataplane.Delivered {
		o.Endpoint, o.Masquerade = at.to, at.masqueraded
	}
	w.trace.End(o)
	w.trace.Rules = max(w.trace.Rules, at.rules)
}

// chain sends a part through a chain; it reports whether the part fell out of
// it, and as what.
func (w *walker) chain(name string, at part) (part, bool) {
	c, ok := w.chains[name]
	if at.depth++; !ok || at.depth > deepest {
		w.trace.Note("chain %s is not followed: it is not there, or leads to itself", name)
		return at, true
	}
	for _, r := range c.rules {
		at.rules++
		last, matches := w.matches(r, at)
		if !matches || len(r) == 0 {
			continue
		}
		subject, why := describe(c, r)
		w.trace.Take(dataplane.Step{Hook: w.hook, Chain: name, Rule: r.text(w.family), Why: why, Subject: subject, Share: at.share})
		var more bool
		if at, more = w.act(r[last:], at); !more {
			return at, false
		}
	}
	at.depth--
	return at, true
}

// matches reports whether a rule takes the packet, and where in it the
// statements begin that do something.
func (w *walker) matches(r rule, at part) (action int, ok bool) {
	for i, s := range r {
		match, known := w.match(s, at)
		if !known {
			return i, true
		}
		if !match {
			return i, false
		}
	}
	return len(r), true
}

// match reports whether a statement matches the packet; known is false when it
// is no match but does something.
func (w *walker) match(s statement, at part) (match, known bool) {
	p := w.packet
	switch s := s.(type) {
	case inSet:
		return w.in(s, at) != s.not, true
	case inRange:
		return s.in.Contains(map[field]netip.Addr{source: p.Src, destination: w.destination(at).Addr()}[s.field]), true
	case fromLocal:
		return p.FromNode(), true
	case fromLink:
		return s.is(p.In), true
	case isProtocol:
		return p.Protocol == dataplane.Protocol(s), true
	case translated:
		return at.to.IsValid(), true
	case invalid: // the first packet of a flow, which is what is followed, is none
		return false, true
	case marked:
		return at.mark&uint32(s) == uint32(s), true
	case unknown:
		if !s.harmless() {
			w.trace.Note("a rule at hook %s has %s, which toyproxy never writes: it is taken not to match", w.hook, s.text(w.family))
		}
		return s.harmless(), true
	}
	return false, false
}

// is reports whether a packet came in through the link.
func (s fromLink) is(link string) bool {
	name, begins := s.name()
	return link != "" && (link == name || begins && strings.HasPrefix(link, name))
}

// act does what the statements of a rule do. It reports whether the part goes on
// with the next rule.
func (w *walker) act(do []statement, at part) (part, bool) {
	for _, s := range do {
		switch s := s.(type) {
		case mark:
			at.mark |= uint32(s)
		case unmark:
			at.mark &^= uint32(s)
		case remember:
		case masquerade:
			at.masqueraded = true
			w.leave(at)
			return at, false
		case drop:
			w.end(dataplane.Dropped, at)
			return at, false
		case reset, unreachable:
			w.end(dataplane.Refused, at)
			return at, false
		case jump:
			return w.chain(string(s), at)
		default:
			return w.lead(s, at)
		}
	}
	return at, true
}

// lead follows what leads to an endpoint or to a chain without return.
func (w *walker) lead(s statement, at part) (part, bool) {
	switch s := s.(type) {
	case deliver:
		w.deliver(netip.AddrPort(s), at)
	case accept:
		w.leave(at)
	case goTo:
		w.goTo(string(s), at)
	case continueAt:
		e, ok := w.sets[string(s)][frontendKey(w.packet.Key)]
		if !ok {
			return at, true
		}
		w.goTo(e.to, at)
	case deliverBy:
		return w.lots(s.pick, s.in, endpointRows, at)
	case continueBy:
		return w.lots(s.pick, s.in, chainRows, at)
	default:
		w.trace.Note("%q is not followed", rule{s}.text(w.family))
		return at, true
	}
	return at, false
}

// deliver gives a part another destination, as the kernel does once, and not on
// the way out.
func (w *walker) deliver(to netip.AddrPort, at part) {
	if w.hook == atPostrouting.name {
		w.leave(at)
		return
	}
	at.to = to
	w.out = append(w.out, at)
}

// goTo leads to a chain; a part that falls out of it leaves the base chain.
func (w *walker) goTo(name string, at part) {
	if at, fell := w.chain(name, at); fell {
		w.leave(at)
	}
}

// leave ends the way of a part that no rule does anything more to.
func (w *walker) leave(at part) {
	if at.to.IsValid() {
		w.end(dataplane.Delivered, at)
		return
	}
	w.end(dataplane.Passed, at)
}

// lots divides a part among the rows of its frontend. What draws a row that is
// not there goes on with the next rule.
func (w *walker) lots(p pick, in string, k kind, at part) (part, bool) {
	one, missing := at, 0
	one.share /= float64(p.count)
	for i := range p.count {
		e, ok := w.sets[in][rowKey(frontendKey(w.packet.Key), p.offset+i)]
		if !ok || k == endpointRows && len(e.to) != w.family.Bits()/8+4 {
			missing++
			continue
		}
		w.trace.Take(dataplane.Step{Hook: w.hook, Chain: "map " + in, Rule: elementText(w.family, k, e), Share: one.share,
			Subject: dataplane.AboutChoice, Why: fmt.Sprintf("the row of number %d", p.offset+i)})
		if k == chainRows {
			w.goTo(e.to, one)
			continue
		}
		to := reader{w.family, e.to}
		w.deliver(netip.AddrPortFrom(to.address(), to.port()), one)
	}
	at.share *= float64(missing) / float64(p.count)
	return at, missing > 0
}

// destination is where a part goes.
func (w *walker) destination(at part) netip.AddrPort {
	if at.to.IsValid() {
		return at.to
	}
	return netip.AddrPortFrom(w.packet.Addr, w.packet.Port)
}

// in looks fields up in a set.
func (w *walker) in(s inSet, at part) bool {
	to, key := w.destination(at), ""
	for _, f := range s.fields {
		switch f {
		case source:
			key += addressKey(w.packet.Src)
		case destination:
			key += addressKey(to.Addr())
		case protocol:
			key += string([]byte{byte(w.packet.Protocol), 0, 0, 0})
		case port:
			key += string([]byte{byte(to.Port() >> 8), byte(to.Port()), 0, 0})
		}
	}
	for _, e := range w.ranges[s.set] {
		if len(key) == len(e.key) && e.key <= key && key <= e.end {
			return true
		}
	}
	e, ok := w.sets[s.set][key]
	return ok && e.end == ""
}
