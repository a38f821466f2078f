package nftables

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// mostRows is how many rows endpoints of different weights may take, unless
// there are more endpoints. Shares are exact where the weights, divided by what
// they have in common, add up to no more; else they are off by a row at most.
const mostRows = 1024

// rowsOf lists the endpoints of a set, each as often as its weight asks for.
func rowsOf(s dataplane.EndpointSet) []dataplane.Endpoint {
	weights := make([]uint64, len(s.Endpoints))
	var total, common uint64
	for i, e := range s.Endpoints {
		weights[i] = uint64(max(e.Weight, 1))
		total += weights[i]
		common = gcd(common, weights[i])
	}
	limit := uint64(max(mostRows, len(weights)))
	if total/common == uint64(len(weights)) { // all the same
		return s.Endpoints[:min(len(s.Endpoints), rowSpan-1)]
	}
	var out []dataplane.Endpoint
	for i, e := range s.Endpoints {
		n := weights[i] / common
		if total/common > limit {
			n = max(1, (weights[i]*limit+total/2)/total)
		}
		for range n {
			out = append(out, e)
		}
	}
	return out[:min(len(out), rowSpan-1)]
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// suffix ends the names of what serves an alternative of frontends whose
// sources do not all choose from the same endpoints.
func suffix(alt int) string {
	if alt == 0 {
		return ""
	}
	return fmt.Sprintf("-alt%d", alt)
}

// endpoints adds the rows of a frontend for one of the sets that it chooses
// from, and leads it there.
func (b *builder) endpoints(set, key string, alt int) {
	s, _ := b.table.Set(set)
	rows := rowsOf(s)
	if s.Affinity > 0 {
		b.sticky(s, rows, key, alt)
		return
	}
	m := b.sets[endpointsMap]
	for i, e := range rows {
		b.add(m, element{key: rowKey(key, uint32(alt*rowSpan+i)), data: endpointData(e.Addr)})
	}
	n := len(rows)
	b.counts[alt][n] = true
	if n <= mostClasses {
		b.join(classSet(n, alt), key, fmt.Sprintf("frontends with rows for %d", n))
		return
	}
	b.lead(key, classChain(n, alt), alt)
}

// lead sends a frontend to a chain by a map.
func (b *builder) lead(key, chain string, alt int) {
	b.add(b.declare("chains"+suffix(alt), frontendChains, "frontends with affinity, or many endpoints"), element{key: key, chain: chain})
}

// classSet names the set of frontends with n rows, classChain the chain that
// chooses one of n.
func classSet(n, alt int) string   { return fmt.Sprintf("svc%d%s", n, suffix(alt)) }
func classChain(n, alt int) string { return fmt.Sprintf("n%d%s", n, suffix(alt)) }

// sticky adds what frontends need whose clients stay with an endpoint: a chain
// that first looks for the client at every endpoint of the set and then
// chooses, and a chain for each endpoint that remembers the client.
func (b *builder) sticky(s dataplane.EndpointSet, rows []dataplane.Endpoint, key string, alt int) {
	name := "sticky-" + hash(s.Name, fmt.Sprint(alt))
	b.lead(key, name, alt)
	m := b.declare(stickyMap, chainRows, "the endpoints of frontends with affinity, numbered")
	for i, e := range rows {
		b.add(m, element{key: rowKey(key, uint32(alt*rowSpan+i)), chain: endpointChain(s, e.Addr)})
	}
	if _, done := b.chains[name]; done {
		return
	}
	c := chain{name: name, comment: comment(s.Service)}
	for _, e := range s.Endpoints {
		to, memory := endpointChain(s, e.Addr), "clients-"+endpointHash(s, e.Addr)
		c.rules = append(c.rules, rule{inSet{fields: []field{source}, set: memory}, goTo(to)})
		b.declare(memory, clients, comment(fmt.Sprintf("%s at %s", s.Service, e.Addr)))
		b.chains[to] = chain{name: to, comment: comment(s.Service), rules: []rule{
			{remember{memory, seconds(s.Affinity)}}, {isProtocol(s.Protocol), deliver(e.Addr)},
		}}
	}
	c.rules = append(c.rules, rule{continueBy{pick{uint32(len(rows)), uint32(alt * rowSpan)}, stickyMap}}, rule{drop{}})
	b.chains[name] = c
}

// seconds rounds a time up to whole seconds.
func seconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// endpointChain is the chain of an endpoint that remembers its clients. Sets of
// one Service, protocol and family share it.
func endpointChain(s dataplane.EndpointSet, a netip.AddrPort) string {
	return "to-" + endpointHash(s, a)
}

func endpointHash(s dataplane.EndpointSet, a netip.AddrPort) string {
	return hash(s.Service, s.Protocol.String(), a.String())
}

// hash makes a short name of texts.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}
