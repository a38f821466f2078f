package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
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
	// in is the link it came in through; empty for what the node itself sends.
	in string
}

func (p packet) String() string {
	return fmt.Sprintf("%s by link %q to %s:%d/%s", p.src, p.in, p.dst, p.port, p.p)
}

// walker interprets the rules of table nat as the kernel does, but takes every
// chance at once: a packet is divided into parts by the statistic match.
type walker struct {
	chains map[string][]string
	node   dataplane.Node
	// fates sums up the parts by what became of them: "forward 10.0.0.1:80",
	// "forward 10.0.0.1:80 masquerade", "refuse", "drop", "none"; with " ours" at
	// the end of a forward whose connection is marked.
	fates map[string]float64
	// met is the most rules that a part met.
	met int
}

// walk sends a packet through TOY-SERVICES.
func walk(t fataler, r xtables.Ruleset, node dataplane.Node, p packet) walker {
	t.Helper()
	w := walker{chains: map[string][]string{}, node: node, fates: map[string]float64{}}
	for _, c := range r.Chains {
		if c.Table == xtables.NAT {
			w.chains[c.Name] = c.Rules
		}
	}
	return w.walk(t, p)
}

func (w walker) walk(t fataler, p packet) walker {
	t.Helper()
	w.fates, w.met = map[string]float64{}, 0
	left, mark, _ := w.chain(t, servicesChain, p, part{weight: 1})
	if left > 0 {
		w.fates["none"+mark] += left
	}
	return w
}

// part is a part of a packet: how much of it, with which mark, after how many
// rules.
type part struct {
	weight float64
	mark   string
	met    int
	// ours: the mark of the connection says that FORWARD is to accept it.
	ours bool
}

// chain returns what falls out of a chain.
func (w *walker) chain(t fataler, name string, p packet, at part) (left float64, mark string, met int) {
	t.Helper()
	rules, ok := w.chains[name]
	if !ok {
		t.Fatalf("a rule leads to chain %s, which is not there", name)
	}
	fallen := part{mark: at.mark}
	for _, text := range rules {
		at.met++
		w.met = max(w.met, at.met)
		chance, action, arg := w.match(t, text, p)
		taken := at
		taken.weight *= chance
		at.weight -= taken.weight
		switch {
		case taken.weight == 0:
		case action == "-g":
			out, mark, met := w.chain(t, arg, p, taken)
			if out > 0 {
				fallen = part{weight: fallen.weight + out, mark: mark, met: max(fallen.met, met)}
			}
		case w.chains[arg] != nil:
			out, mark, met := w.chain(t, arg, p, taken)
			if at.weight += out; out > 0 {
				at.mark, at.met = mark, met
			}
		case strings.HasPrefix(arg, "MARK"):
			at.weight, at.mark = at.weight+taken.weight, arg[strings.LastIndex(arg, " ")+1:]
		case arg == "CONNMARK --set-xmark "+marksOf(w.node).ours:
			at.weight, at.ours = at.weight+taken.weight, true
		default:
			w.fates[w.fateName(arg, at)] += taken.weight
		}
		if at.weight <= 0 {
			break
		}
	}
	if at.weight > 0 {
		return fallen.weight + at.weight, at.mark, at.met
	}
	return fallen.weight, fallen.mark, fallen.met
}

func (w *walker) fateName(target string, at part) string {
	marks := marksOf(w.node)
	to, ok := strings.CutPrefix(target, "DNAT --to-destination ")
	if !ok {
		return map[string]string{marks.refuse: "refuse", marks.drop: "drop"}[at.mark]
	}
	name := "forward " + to
	if at.mark == marks.masquerade {
		name += " masquerade"
	}
	if at.ours {
		name += " ours"
	}
	return name
}

// match returns with which chance the rule is taken, and its action.
func (w *walker) match(t fataler, text string, p packet) (chance float64, action, arg string) {
	t.Helper()
	words := strings.Fields(text)
	chance = 1
	no := func(matched bool) {
		if !matched {
			chance = 0
		}
	}
	for i := 0; i < len(words); i++ {
		value := func() string { i++; return words[i] }
		switch words[i] {
		case "-s":
			in := netip.MustParsePrefix(value()).Contains(p.src)
			no(in != (i >= 2 && words[i-2] == "!"))
		case "-i":
			no(throughLink(value(), p.in))
		case "-d":
			no(netip.MustParsePrefix(value()).Contains(p.dst))
		case "-p":
			no(value() == p.p.String())
		case "--dport":
			low, high, isRange := strings.Cut(value(), ":")
			if !isRange {
				high = low
			}
			no(number(low) <= int(p.port) && int(p.port) <= number(high))
		case "--src-type":
			value()
			no(isLocal(w.node, p.src))
		case "--probability":
			f, _ := strconv.ParseFloat(value(), 64)
			chance *= f
		case "--update":
			no(false) // the walker has no memory
		case "--comment", "-m", "--name", "--mask", "--mode":
			value()
		case "!", "--rsource", "--set", "--seconds", "--reap":
		case "-j", "-g":
			return chance, words[i], strings.Join(words[i+1:], " ")
		}
	}
	t.Fatalf("rule without a target: %s", text)
	return 0, "", ""
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

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
