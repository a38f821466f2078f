package nftables

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// mostRows is how many rows endpoints of different weights may take, unless
// there are more endpoints. Shares are exact where the weights, divided by what
// they have in common, add up to no more; else they are off by a row at most.
const mostRows = 1024

// rowsOf lists the endpoints of a set, each as often as its weight asks for.
func rowsOf(s *dataplane.EndpointSet) []dataplane.Endpoint {
	if sameWeights(s.Endpoints) {
		return s.Endpoints[:min(len(s.Endpoints), rowSpan-1)]
	}
	weights := make([]uint64, len(s.Endpoints))
	var total, common uint64
	for i, e := range s.Endpoints {
		weights[i] = uint64(max(e.Weight, 1))
		total += weights[i]
		common = gcd(common, weights[i])
	}
	limit := uint64(max(mostRows, len(weights)))
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

func sameWeights(list []dataplane.Endpoint) bool {
	for i := range list {
		if list[i].Weight != list[0].Weight {
			return false
		}
	}
	return true
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
	return "-alt" + strconv.Itoa(alt)
}

// endpoints adds the rows of a frontend for one of the sets that it chooses
// from, and leads it there.
func (b *builder) endpoints(set, key string, alt int) {
	i := sort.Search(len(b.table.Sets), func(i int) bool { return b.table.Sets[i].Name >= set })
	s := &b.table.Sets[i]
	if b.leads[i].width == 0 {
		b.leads[i] = b.rowsFor(s)
	}
	r := b.leads[i]
	r.group = group{key, uint32(alt)}
	if s.Affinity > 0 {
		b.sticky(s, r)
		return
	}
	n := uint32(r.len())
	b.count.shape.add(counted{what: class, alt: uint8(alt), n: n}, b.sign)
	m := b.rowsMap(n, alt)
	m.rows = append(m.rows, r)
	if n <= mostClasses {
		b.join(classSet(n, alt), key, "frontends with rows for ", strconv.Itoa(int(n)))
		return
	}
	b.lead(key, classChain(n, alt), alt)
}

// rowsName names the map with the rows of frontends with so many. Those whose
// chains come and go with their frontends are in maps of their own: see
// manyFrontends.
func rowsName(n uint32, alt int) string {
	switch {
	case n > mostClasses:
		return manyMap + suffix(alt)
	case alt > 0: // not like the chain
		return endpointsMap + "-of" + suffix(alt)
	}
	return endpointsMap
}

func (b *builder) rowsMap(n uint32, alt int) *set {
	name := rowsName(n, alt)
	switch {
	case name == endpointsMap:
		return b.always(name)
	case n > mostClasses:
		return b.declare(name, endpointRows, "the endpoints of frontends with many, numbered")
	}
	return b.declare(name, endpointRows, "the endpoints that not all sources reach, numbered")
}

// rowsFor returns the rows that each frontend has that chooses from a set.
func (b *builder) rowsFor(s *dataplane.EndpointSet) rows {
	list := rowsOf(s)
	r := rows{width: widthOf(b.family, endpointRows)}
	if s.Affinity > 0 {
		r.width = widthOf(b.family, chainRows)
	}
	leads := make([]byte, 0, len(list)*r.width)
	for i := range list {
		if s.Affinity > 0 {
			leads = append(leads, endpointChain(s, list[i].Addr)...)
		} else {
			leads = appendEndpoint(leads, list[i].Addr)
		}
	}
	r.leads = string(leads)
	return r
}

// lead sends a frontend to a chain by a map.
func (b *builder) lead(key, chain string, alt int) {
	b.add(b.declare("chains"+suffix(alt), frontendChains, "frontends with affinity, or many endpoints"), element{key: key, to: chain})
}

// classSet names the set of frontends with n rows, classChain the chain that
// chooses one of so many that no set is for them.
func classSet(n uint32, alt int) string   { return "svc" + strconv.Itoa(int(n)) + suffix(alt) }
func classChain(n uint32, alt int) string { return "n" + strconv.Itoa(int(n)) + suffix(alt) }

// altSet names the set of frontends from which a class of sources chooses by an
// alternative.
func altSet(alt int, s dataplane.Source) string {
	return "alt" + strconv.Itoa(alt) + "-" + s.String()
}

// sticky adds what frontends need whose clients stay with an endpoint: a chain
// that first looks for the client at every endpoint of the set and then
// chooses, and a chain for each endpoint that remembers the client.
func (b *builder) sticky(s *dataplane.EndpointSet, r rows) {
	name := "sticky-" + hash(s.Name, strconv.Itoa(int(r.alt)))
	b.lead(r.frontend, name, int(r.alt))
	m := b.declare(stickyMap, chainRows, "the endpoints of frontends with affinity, numbered")
	m.rows = append(m.rows, r)
	if _, done := b.chains[name]; done {
		return
	}
	c := chain{name: name, comment: comment(s.Service)}
	for _, e := range s.Endpoints {
		to, memory := endpointChain(s, e.Addr), "clients-"+endpointHash(s, e.Addr)
		c.rules = append(c.rules, rule{inSet{fields: []field{source}, set: memory}, goTo(to)})
		b.declare(memory, clients, comment(s.Service+" at "+e.Addr.String()))
		b.chains[to] = chain{name: to, comment: comment(s.Service), rules: []rule{
			{remember{memory, seconds(s.Affinity)}}, {isProtocol(s.Protocol), deliver(e.Addr)},
		}}
	}
	c.rules = append(c.rules, rule{continueBy{pick{uint32(r.len()), r.alt * rowSpan}, stickyMap}}, rule{drop{}})
	b.chains[name] = c
}

// seconds rounds a time up to whole seconds.
func seconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// endpointChain is the chain of an endpoint that remembers its clients. Sets of
// one Service, protocol and family share it.
func endpointChain(s *dataplane.EndpointSet, a netip.AddrPort) string {
	return endpointPrefix + endpointHash(s, a)
}

// endpointPrefix begins the names of these chains, before a hash.
const endpointPrefix = "to-"

func endpointHash(s *dataplane.EndpointSet, a netip.AddrPort) string {
	return hash(s.Service, s.Protocol.String(), a.String())
}

// hashLength is how long what hash makes is.
const hashLength = 16

// hash makes a short name of texts.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}
