package xtables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Rules are the rules of ours of one family, wanted or held: what a packet can
// be walked through.
type Rules struct {
	// chains and bases hold, by table and name, what stands in our chains and
	// what leads to them from built-in ones.
	chains, bases map[Table]map[string][]string
	// policies are those of built-in chains, foreign counts the rules of others
	// there; both are known of a kernel only.
	policies map[Table]map[string]string
	foreign  map[Table]map[string]int
}

func newRules() Rules {
	r := Rules{chains: map[Table]map[string][]string{}, bases: map[Table]map[string][]string{},
		policies: map[Table]map[string]string{}, foreign: map[Table]map[string]int{}}
	for _, t := range []Table{Mangle, NAT, Filter} {
		r.chains[t], r.bases[t], r.policies[t], r.foreign[t] = map[string][]string{}, map[string][]string{}, map[string]string{}, map[string]int{}
	}
	return r
}

// Rules returns the rules of the ruleset, as they stand in a kernel that has none
// of others.
func (r Ruleset) Rules() Rules {
	out := newRules()
	for _, c := range r.Chains {
		out.chains[c.Table][c.Name] = c.rules()
	}
	for _, last := range []bool{false, true} {
		for _, j := range r.Jumps {
			if j.Last == last {
				out.bases[j.Table][j.Base] = append(out.bases[j.Table][j.Base], j.Rule)
			}
		}
	}
	return out
}

// Rules returns the rules of ours in the state.
func (s State) Rules() Rules {
	out := newRules()
	for t, ts := range s.Tables {
		if out.chains[t] == nil {
			continue
		}
		out.chains[t] = ts.Chains
		for name, b := range ts.Bases {
			out.bases[t][name], out.policies[t][name], out.foreign[t][name] = b.Jumps, b.Policy, b.Foreign
		}
	}
	return out
}

// Part is a part of a packet on its way: where lots are drawn it is divided.
type Part struct {
	// In is the link by which it comes to the hook, empty on the way out. Out is
	// that by which it leaves; empty when that is not known, but no lo.
	In, Out string
	// To is where it goes now: what it dialled, or an endpoint.
	To netip.AddrPort
	// Translated: To is not what it dialled any more.
	Translated bool
	// Mark is its mark, ConnMark that of its connection.
	Mark, ConnMark uint32
	Masqueraded    bool
	Share          float64
	// Rules is how many rules it has been compared with.
	Rules int
}

// Taken is a rule that took a part of a packet.
type Taken struct {
	Table Table
	// Base is the built-in chain by which the packet came.
	Base string
	// Chain is the chain that the rule stands in.
	Chain string
	// Rule is its text. Target is a chain or what is done.
	Rule, Target string
}

// Describe says what a rule that was taken decides, and what it does.
type Describe func(Taken) (dataplane.Subject, string)

// Walker interprets rules as the kernel does, but takes every chance at once.
type Walker struct {
	Rules    Rules
	Packet   dataplane.Packet
	Describe Describe
	// Member reports whether a set has the fields of a part of the packet, such
	// as "dst,dst"; not known when it is a set of somebody else. May be nil.
	Member func(set, fields string, at Part) (member, known bool)
	// MarkIn returns the mark that a set has for a part of the packet. May be nil.
	MarkIn func(set, fields string, at Part) (mark uint32, ok bool)
	// Trace is what came out so far.
	Trace dataplane.Trace
}

// Start is the whole packet, before any rule.
func (w *Walker) Start() []Part {
	return []Part{{In: w.Packet.In, To: netip.AddrPortFrom(w.Packet.Addr, w.Packet.Port), Share: 1}}
}

// Hook sends parts through a table at a built-in chain and returns those that go
// on to the next hook.
func (w *Walker) Hook(t Table, base string, parts []Part) []Part {
	v := visit{w: w, table: t, base: base, hook: fmt.Sprintf("%s %s", t, base)}
	if n := w.Rules.foreign[t][base]; n > 0 && len(parts) > 0 {
		w.Trace.Note("rules of others in %s are not followed: %d", v.hook, n)
	}
	var out []Part
	for _, at := range parts {
		v.accepted = nil
		left := v.chain(base, w.Rules.bases[t][base], 0, at)
		out = append(out, v.accepted...)
		for _, at := range left {
			if w.Rules.policies[t][base] == "DROP" {
				w.Trace.Take(dataplane.Step{Hook: v.hook, Chain: base, Rule: "-P " + base + " DROP", Share: at.Share,
					Subject: dataplane.AboutDiscard, Why: "the host's policy: what no rule accepts is dropped"})
				w.End(dataplane.Dropped, at)
				continue
			}
			out = append(out, at)
		}
	}
	return out
}

// Finish notes the ends of the parts that no hook has stopped, and returns the trace.
func (w *Walker) Finish(parts []Part) dataplane.Trace {
	for _, at := range parts {
		fate := dataplane.Passed
		if at.Translated {
			fate = dataplane.Delivered
		}
		w.End(fate, at)
	}
	w.Trace.Sort()
	return w.Trace
}

// End notes what became of a part that goes no further.
func (w *Walker) End(fate dataplane.Fate, at Part) {
	o := dataplane.Outcome{Fate: fate, Share: at.Share}
	if fate == dataplane.Delivered {
		o.Endpoint, o.Masquerade = at.To, at.Masqueraded
	}
	w.Trace.End(o)
	w.Trace.Rules = max(w.Trace.Rules, at.Rules)
}

// deepest is how many chains may lead to each other; the kernel allows fewer.
const deepest = 64

// visit is the visit of a packet to one table at one hook.
type visit struct {
	w          *Walker
	table      Table
	base, hook string
	depth      int
	// accepted are the parts that the table is done with.
	accepted []Part
}

// chain returns the parts that fall out of a chain which a part enters at rule i.
func (v *visit) chain(name string, rules []string, i int, at Part) []Part {
	var out []Part
	for ; i < len(rules); i++ {
		at.Rules++
		p := parseRule(rules[i])
		chance := v.chance(p, rules[i], at)
		taken := at
		taken.Share *= chance
		if taken.Share > 0 {
			back, fallen := v.act(name, rules[i], p, taken)
			out = append(out, fallen...)
			for _, b := range back {
				out = append(out, v.chain(name, rules, i+1, b)...)
			}
		}
		if at.Share -= taken.Share; at.Share <= 0 {
			return out
		}
	}
	return append(out, at)
}

// act does what a rule does to the part that it takes. What comes back goes on
// with the next rule, what has fallen is out of the chain.
func (v *visit) act(chain, rule string, p parsed, at Part) (back, fallen []Part) {
	subject, why := v.w.Describe(Taken{v.table, v.base, chain, rule, p.target})
	v.w.Trace.Take(dataplane.Step{Hook: v.hook, Chain: chain, Rule: "-A " + chain + " " + rule, Why: why, Subject: subject, Share: at.Share})
	switch p.target {
	case "MARK", "CONNMARK":
		return []Part{setBits(p, at)}, nil
	case "SET":
		return []Part{v.set(p, at)}, nil
	case "ACCEPT":
		v.accepted = append(v.accepted, at)
	case "RETURN":
		return nil, []Part{at}
	case "DNAT", "MASQUERADE":
		v.accepted = append(v.accepted, v.translate(p, at))
	case "REJECT":
		v.w.End(dataplane.Refused, at)
	case "DROP":
		v.w.End(dataplane.Dropped, at)
	default:
		return v.call(rule, p, at)
	}
	return nil, nil
}

// call leads to another chain.
func (v *visit) call(rule string, p parsed, at Part) (back, fallen []Part) {
	rules, ok := v.w.Rules.chains[v.table][p.target]
	if !ok || v.depth >= deepest {
		v.w.Trace.Note("what %q leads to is not followed", rule)
		return []Part{at}, nil
	}
	v.depth++
	defer func() { v.depth-- }()
	left := v.chain(p.target, rules, 0, at)
	if p.goes {
		return nil, left
	}
	return left, nil
}

// set gives a part the mark that a set has for it. What enters it into a set
// changes nothing for this packet.
func (v *visit) set(p parsed, at Part) Part {
	if len(p.args) >= 3 && p.args[0] == "--map-set" && v.w.MarkIn != nil {
		if mark, ok := v.w.MarkIn(p.args[1], p.args[2], at); ok {
			at.Mark = mark
		}
	}
	return at
}

func setBits(p parsed, at Part) Part {
	value, mask, ok := uint32(0), uint32(0), false
	if len(p.args) == 2 && p.args[0] == "--set-xmark" {
		value, mask, ok = underMask(p.args[1])
	}
	switch {
	case !ok:
	case p.target == "MARK":
		at.Mark = at.Mark&^mask ^ value
	default:
		at.ConnMark = at.ConnMark&^mask ^ value
	}
	return at
}

func (v *visit) translate(p parsed, at Part) Part {
	if p.target == "MASQUERADE" {
		at.Masqueraded = true
		return at
	}
	text := strings.Join(p.args[min(1, len(p.args)):], " ")
	to, err := netip.ParseAddrPort(text)
	if a, only := netip.ParseAddr(text); only == nil {
		to, err = netip.AddrPortFrom(a, at.To.Port()), nil
	}
	if err != nil {
		v.w.Trace.Note("the target of %q is not understood", strings.Join(p.args, " "))
		return at
	}
	at.To, at.Translated = to, true
	return at
}

// chance is with which chance a rule takes the part: 0 when it does not match.
func (v *visit) chance(p parsed, rule string, at Part) float64 {
	out := 1.0
	for _, c := range p.conditions {
		chance, known := v.holds(c, at)
		if !known {
			v.w.Trace.Note("whether the packet matches %q is not known, it is taken not to: %s", rule, strings.Join(slices.Concat([]string{c.option}, c.args), " "))
			return 0
		}
		if c.not {
			chance = 1 - chance
		}
		if out *= chance; out == 0 {
			return 0
		}
	}
	return out
}
