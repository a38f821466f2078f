package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// fataler is what testing.T and rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// packet is the first packet of a flow.
type packet struct {
	src, dst netip.Addr
	p        dataplane.Protocol
	port     uint16
	// in is the link that it came in through, if any.
	in string
}

func (p packet) String() string { return fmt.Sprintf("%s to %s:%d/%s", p.src, p.dst, p.port, p.p) }

// walker follows the rules as the kernel does, but takes every chance at once:
// a packet that draws lots is divided into parts.
type walker struct {
	node   dataplane.Node
	chains map[string][]rule
	sets   map[string]map[string]element
	ranges map[string][]element
	// fates sums up the parts by what became of them: "forward 10.0.0.1:80",
	// "forward 10.0.0.1:80 masquerade", "refuse", "drop", "none".
	fates map[string]float64
	// met is the most rules that a part met.
	met int
}

func newWalker(l layout, node dataplane.Node) *walker {
	w := &walker{node: node, chains: map[string][]rule{}, sets: map[string]map[string]element{}, ranges: map[string][]element{}}
	for _, c := range l.chains {
		w.chains[c.name] = c.rules
	}
	for _, s := range l.sets {
		w.sets[s.name] = map[string]element{}
		for _, e := range s.elements {
			w.sets[s.name][e.key] = e
		}
		if s.kind == ranges {
			w.ranges[s.name] = s.elements
		}
	}
	return w
}

// walk sends a packet through the chain of a hook.
func (w *walker) walk(t fataler, p packet) map[string]float64 {
	t.Helper()
	w.fates, w.met = map[string]float64{}, 0
	if _, ok := w.chains[preroutingChain]; !ok {
		return map[string]float64{"none": 1}
	}
	w.chain(t, preroutingChain, part{packet: p, weight: 1})
	return w.fates
}

// part is a part of a packet: how much of it, whether it is marked, after how
// many rules, and whether a chain is left to come back to.
type part struct {
	packet
	weight float64
	marked bool
	met    int
}

// chain reports whether the packet fell out of the chain, and with what.
func (w *walker) chain(t fataler, name string, at part) (part, bool) {
	t.Helper()
	rules, ok := w.chains[name]
	if !ok {
		t.Fatalf("a rule leads to chain %s, which is not there", name)
	}
	for _, r := range rules {
		at.met++
		w.met = max(w.met, at.met)
		var more bool
		if at, more = w.rule(t, r, at); !more {
			return at, false
		}
	}
	if name == preroutingChain {
		w.end("none", at)
	}
	return at, true
}

func (w *walker) end(fate string, at part) {
	if fate != "refuse" && fate != "drop" && fate != "none" && at.marked {
		fate += " masquerade"
	}
	w.fates[fate] += at.weight
}

// rule reports whether the packet goes on with the next rule.
func (w *walker) rule(t fataler, r rule, at part) (part, bool) {
	t.Helper()
	for _, s := range r {
		switch s := s.(type) {
		case inSet:
			if w.in(s, at.packet) == s.not {
				return at, true
			}
		case inRange:
			if !s.in.Contains(map[field]netip.Addr{source: at.src, destination: at.dst}[s.field]) {
				return at, true
			}
		case fromLocal:
			if !isLocal(w.node, at.src) {
				return at, true
			}
		case fromLink:
			if !throughLink(string(s), at.in) {
				return at, true
			}
		case isProtocol:
			if at.p != dataplane.Protocol(s) {
				return at, true
			}
		case mark:
			at.marked = true
		case remember:
		default:
			return w.verdict(t, s, at)
		}
	}
	return at, true
}

// verdict does what ends a rule.
func (w *walker) verdict(t fataler, s statement, at part) (part, bool) {
	t.Helper()
	switch s := s.(type) {
	case drop:
		w.end("drop", at)
	case reset, unreachable:
		w.end("refuse", at)
	case deliver:
		w.end("forward "+netip.AddrPort(s).String(), at)
	case jump:
		return w.chain(t, string(s), at)
	case goTo:
		w.goTo(t, string(s), at)
	case continueAt:
		e, ok := w.sets[string(s)][frontendKey(at.key())]
		if !ok {
			return at, true
		}
		w.goTo(t, e.chain, at)
	case deliverBy:
		return at, w.lots(s.pick, s.in, at, func(e element, at part) {
			to := reader{dataplane.FamilyOf(at.dst), e.data}
			w.end("forward "+netip.AddrPortFrom(to.address(), to.port()).String(), at)
		})
	case continueBy:
		return at, w.lots(s.pick, s.in, at, func(e element, at part) { w.goTo(t, e.chain, at) })
	default:
		t.Fatalf("the walker does not know %T", s)
	}
	return at, false
}

// goTo leads to a chain from which a packet that falls out leaves all of ours.
func (w *walker) goTo(t fataler, name string, at part) {
	if at, fell := w.chain(t, name, at); fell {
		w.end("none", at)
	}
}

// lots divides a packet among rows. It reports whether a row was missing: what
// drew it goes on with the next rule.
func (w *walker) lots(p pick, in string, at part, visit func(element, part)) bool {
	missing := false
	one := at
	one.weight /= float64(p.count)
	for i := range p.count {
		if e, ok := w.sets[in][rowKey(frontendKey(at.key()), p.offset+i)]; ok {
			visit(e, one)
			continue
		}
		missing = true
	}
	return missing
}

func (p packet) key() dataplane.Key { return dataplane.Key{Addr: p.dst, Protocol: p.p, Port: p.port} }

// in looks fields up.
func (w *walker) in(s inSet, p packet) bool {
	key := ""
	for _, f := range s.fields {
		switch f {
		case source:
			key += addressKey(p.src)
		case destination:
			key += addressKey(p.dst)
		case protocol:
			key += string([]byte{byte(p.p), 0, 0, 0})
		case port:
			key += string([]byte{byte(p.port >> 8), byte(p.port), 0, 0})
		}
	}
	for _, e := range w.ranges[s.set] {
		if e.key <= key && key <= e.end {
			return true
		}
	}
	e, ok := w.sets[s.set][key]
	return ok && e.end == ""
}

// throughLink reports whether a link has a name, or begins with it and "+". What
// the node sends came in through none.
func throughLink(name, link string) bool {
	prefix, begins := strings.CutSuffix(name, "+")
	return link == name || begins && link != "" && strings.HasPrefix(link, prefix)
}

// isLocal reports whether an address is the node's, be it for NodePorts or not.
func isLocal(n dataplane.Node, a netip.Addr) bool {
	return slices.Contains(n.Addrs, a) || a == netip.MustParseAddr("10.244.0.1")
}
