package dataplane

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Explainer is a Backend that can say which way a packet takes through its
// rules.
type Explainer interface {
	Backend
	// Walk follows a packet through the rules that Render writes for a table. Pure.
	Walk(Table, Packet) (Trace, error)
	// WalkLive follows it through the rules of ours that the kernel holds. It
	// writes nothing.
	WalkLive(context.Context, Packet) (Trace, error)
}

// Packet is the first packet of a flow as a node meets it, with those facts
// about it that rules look at.
type Packet struct {
	// Key is what it dials: an address, never the unspecified one.
	Key
	// Src is where it comes from. The zero Addr stands for an address of the
	// node that lies in no range.
	Src netip.Addr
	// In is the link it came in through; empty for what the node itself sends.
	In string
	// Own are the addresses of the node, as far as they are known.
	Own []netip.Addr
}

// Owns reports whether an address is one of the node's.
func (p Packet) Owns(a netip.Addr) bool { return slices.Contains(p.Own, a) }

// FromNode reports whether the source is an address of the node.
func (p Packet) FromNode() bool { return !p.Src.IsValid() || p.Owns(p.Src) }

// Subject says what a step decides, whatever the backend: by it people are told
// which field of which object is behind a rule.
type Subject uint8

// The subjects, about in the order in which a packet meets them.
const (
	// AboutEntry: packets of a hook come to rules of ours.
	AboutEntry Subject = iota
	// AboutDispatch: by address, protocol and port, which frontend is dialled.
	AboutDispatch
	// AboutSources: which sources may use the frontend.
	AboutSources
	// AboutClass: what becomes of packets from there.
	AboutClass
	// AboutAffinity: a client goes back to its endpoint, or is remembered.
	AboutAffinity
	// AboutChoice: which endpoint.
	AboutChoice
	// AboutUnserved: the address or the port is no frontend's.
	AboutUnserved
	// AboutRefusal: the sender is told no.
	AboutRefusal
	// AboutDiscard: nobody is told anything.
	AboutDiscard
	// AboutMasquerading: the source is rewritten, or is to be.
	AboutMasquerading
	// AboutHairpin: the source is rewritten because the endpoint dials itself.
	AboutHairpin
	// AboutPassage: the host's own filter shall let the packet pass.
	AboutPassage
)

// String returns one lower-case word.
func (s Subject) String() string {
	return [...]string{"entry", "dispatch", "sources", "class", "affinity", "choice", "unserved",
		"refusal", "discard", "masquerading", "hairpin", "passage"}[s]
}

// MarshalText gives the word, for JSON.
func (s Subject) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Step is a rule that a packet is taken by.
type Step struct {
	// Hook is where in the kernel: "nat PREROUTING", "INPUT".
	Hook string `json:"hook"`
	// Chain is the chain, set or virtual server that the rule stands in.
	Chain string `json:"chain"`
	// Rule is the rule in the syntax of the kernel's tool.
	Rule string `json:"rule"`
	// Why says what the rule does, for people.
	Why     string  `json:"why"`
	Subject Subject `json:"subject"`
	// Share is the part of such packets that get here and are taken, up to 1.
	Share float64 `json:"share"`
}

// Fate is what became of a packet at the end of its walk.
type Fate uint8

const (
	// Passed: no rule of ours decided anything, the node treats it as any other.
	Passed Fate = iota
	// Delivered: it goes to an endpoint.
	Delivered
	// Refused: the sender is told at once.
	Refused
	// Dropped: the sender waits in vain.
	Dropped
)

// String returns one lower-case word.
func (f Fate) String() string { return [...]string{"passed", "delivered", "refused", "dropped"}[f] }

// Outcome is one of the ends that a packet may come to.
type Outcome struct {
	Fate Fate
	// Endpoint is where it goes when it is delivered.
	Endpoint netip.AddrPort
	// Masquerade: with another source than its own.
	Masquerade bool
	// Share is the part of such packets that end so; all shares add up to 1.
	Share float64
}

// Trace is the way of a packet. Where lots are drawn every lot has been followed.
type Trace struct {
	// Steps are the rules that took the packet, each once, in their order.
	Steps []Step
	// Outcomes are sorted by fate and endpoint.
	Outcomes []Outcome
	// Rules is the most rules that the packet is compared with on any way.
	Rules int
	// Notes tell what was not followed, and why.
	Notes []string
}

// Take notes that a rule took a part of the packet. A rule that several parts
// meet is one step.
func (t *Trace) Take(s Step) {
	for i := range t.Steps {
		if at := &t.Steps[i]; at.Hook == s.Hook && at.Chain == s.Chain && at.Rule == s.Rule {
			at.Share += s.Share
			return
		}
	}
	t.Steps = append(t.Steps, s)
}

// End notes what became of a part of the packet.
func (t *Trace) End(o Outcome) {
	same := func(have Outcome) bool {
		return have.Fate == o.Fate && have.Endpoint == o.Endpoint && have.Masquerade == o.Masquerade
	}
	if i := slices.IndexFunc(t.Outcomes, same); i >= 0 {
		t.Outcomes[i].Share += o.Share
		return
	}
	t.Outcomes = append(t.Outcomes, o)
}

// Note adds a note, once.
func (t *Trace) Note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.Notes, text) {
		t.Notes = append(t.Notes, text)
	}
}

// Sort puts the outcomes in their order.
func (t *Trace) Sort() {
	slices.SortFunc(t.Outcomes, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(a.Fate, b.Fate), a.Endpoint.Compare(b.Endpoint), cmp.Compare(b.Share, a.Share))
	})
}

// Answer is the fate of every packet that takes this way; ok is false when lots
// decide between several.
func (t Trace) Answer() (f Fate, ok bool) {
	for i, o := range t.Outcomes {
		if i > 0 && o.Fate != f {
			return f, false
		}
		f = o.Fate
	}
	return f, true
}

// Dialled returns the frontend that a packet is to: that of the very address,
// else the NodePort of an address of the node.
func (t Table) Dialled(p Packet) (Frontend, bool) {
	if fe, ok := t.Frontend(p.Key); ok {
		return fe, true
	}
	if !slices.Contains(t.Node.Addrs, p.Addr) {
		return Frontend{}, false
	}
	key := p.Key
	key.Addr = netip.IPv4Unspecified()
	if p.Addr.Is6() {
		key.Addr = netip.IPv6Unspecified()
	}
	return t.Frontend(key)
}

// Class returns which of the sources a packet counts as.
func (n Node) Class(p Packet) Source {
	pod := slices.ContainsFunc(n.PodInterfaces, func(name string) bool { return throughLink(name, p.In) })
	if len(n.PodInterfaces) == 0 {
		pod = slices.ContainsFunc(n.PodRanges, func(r netip.Prefix) bool { return r.Contains(p.Src) })
	}
	switch {
	case pod:
		return FromPod
	case p.FromNode():
		return FromNode
	}
	return FromOutside
}

// throughLink reports whether a link has a name, or begins with it and "+".
func throughLink(name, link string) bool {
	prefix, begins := strings.CutSuffix(name, "+")
	return link != "" && (link == name || begins && strings.HasPrefix(link, prefix))
}
