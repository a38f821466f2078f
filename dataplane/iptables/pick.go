package iptables

import (
	"math"
	"strconv"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// resolution is the number of steps in which the kernel's statistic match
// counts chances: 31 bits.
const resolution = 1 << 31

// flat is how many endpoints stay a list. It is more than a bucket, because most
// Services have about ten endpoints: one chain instead of three loads a third
// faster, and costs a packet one rule more on average.
const flat = 16

// pickChains are the chains that choose an endpoint of a set, deepest first. A
// few endpoints are a list of rules, each taken with the chance that gives its
// endpoint the right share of what the rules before it left over; more are split
// into parts that are chosen the same way, so that the rules a packet meets grow
// with the logarithm of their number. The last rule of each list is
// unconditional: rounding cannot let a packet through.
func pickChains(s dataplane.EndpointSet, m clientMemory) []xtables.Chain {
	p := picker{set: s, memory: m}
	p.deliveries()
	p.chain("", s.Endpoints, p.remembered())
	return p.chains
}

// simple reports whether the choice of a set is one list of rules that deliver.
func simple(s dataplane.EndpointSet) bool { return s.Affinity <= 0 && len(s.Endpoints) <= flat }

// choice writes the rules of a simple set. The first has a comment unless it is
// empty.
func choice(b *xtables.Lines, s dataplane.EndpointSet, comment string) {
	var room [flat]uint64
	weights := room[:0]
	for _, e := range s.Endpoints {
		weights = append(weights, uint64(max(e.Weight, 1)))
	}
	protocol := s.Protocol.String()
	for i, chance := range chances(weights) {
		b.Text = append(append(b.Text, "-p "...), protocol...)
		if i == 0 && comment != "" {
			b.Text = append(append(b.Text, ' '), comment...)
		}
		if chance < resolution {
			b.Text = appendStatistic(append(b.Text, ' '), chance)
		}
		b.Text = s.Endpoints[i].Addr.AppendTo(append(b.Text, " -j DNAT --to-destination "...))
		b.End()
	}
}

// picker collects the chains of one set.
type picker struct {
	set    dataplane.EndpointSet
	memory clientMemory
	chains []xtables.Chain
}

// chain adds the chain for a part of the endpoints, after the chains it leads
// to. first are rules that stand before the choice.
func (p *picker) chain(path string, eps []dataplane.Endpoint, first []string) {
	if simple(p.set) {
		c := p.of(path, nil)
		c.Make = func(b *xtables.Lines) { choice(b, p.set, "") }
		p.chains = append(p.chains, c)
		return
	}
	parts := split(eps)
	weights := make([]uint64, len(parts))
	for i, part := range parts {
		weights[i] = weight(part)
	}
	rules := first
	for i, chance := range chances(weights) {
		if len(parts[i]) == 1 {
			rules = append(rules, p.deliver(statistic(chance), parts[i][0]))
			continue
		}
		sub := strings.TrimPrefix(path+"."+strconv.Itoa(i), ".")
		p.chain(sub, parts[i], nil)
		rules = append(rules, rule(statistic(chance), goTo(setChain(p.set.Name, sub))))
	}
	p.chains = append(p.chains, p.of(path, rules))
}

// of is the chain for a part of the endpoints.
func (p *picker) of(path string, rules []string) xtables.Chain {
	return xtables.Chain{Table: xtables.NAT, Name: setChain(p.set.Name, path), For: p.set.Service, Rules: rules}
}

// split cuts endpoints into at most a bucket of parts of equal length; few
// endpoints into single ones.
func split(eps []dataplane.Endpoint) [][]dataplane.Endpoint {
	n := len(eps)
	if n > flat {
		n = min(bucket, (len(eps)+bucket-1)/bucket)
	}
	parts := make([][]dataplane.Endpoint, n)
	for i := range parts {
		parts[i] = eps[i*len(eps)/n : (i+1)*len(eps)/n]
	}
	return parts
}

// weight adds up the weights of endpoints.
func weight(eps []dataplane.Endpoint) uint64 {
	var w uint64
	for _, e := range eps {
		w += uint64(max(e.Weight, 1))
	}
	return w
}

// chances returns for each weight the chance, in steps of the kernel's
// resolution, with which its rule has to be taken by a packet that reaches it.
// Each is computed from what the rounded ones before it really leave over, so
// that errors do not add up. The last is certain.
func chances(weights []uint64) []uint32 {
	var total float64
	for _, w := range weights {
		total += float64(w)
	}
	out := make([]uint32, len(weights))
	left := 1.0
	for i, w := range weights {
		if i == len(weights)-1 {
			out[i] = resolution
			break
		}
		steps := math.Round(float64(w) / total / left * resolution)
		// Neither never nor always: an endpoint of the least weight must stay
		// reachable, and those behind it too.
		steps = min(max(steps, 1), resolution-1)
		out[i] = uint32(steps)
		left *= 1 - steps/resolution
	}
	return out
}

// statistic matches by chance; certainty needs no match.
func statistic(steps uint32) string {
	if steps == resolution {
		return ""
	}
	return string(appendStatistic(nil, steps))
}

// appendStatistic writes that match as iptables-save does.
func appendStatistic(b []byte, steps uint32) []byte {
	b = append(b, "-m statistic --mode random --probability "...)
	return strconv.AppendFloat(b, float64(steps)/resolution, 'f', 11, 64)
}

// dnat rewrites the destination of the packets that match.
func (p *picker) dnat(match string, e dataplane.Endpoint) string {
	return rule("-p "+p.set.Protocol.String(), match, "-j DNAT --to-destination "+e.Addr.String())
}
