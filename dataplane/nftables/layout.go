package nftables

import (
	"iter"

	"github.com/toyproxy/toyproxy/dataplane"
)

// tableName is the name of our table in each family: whatever is in a table of
// that name is ours.
const tableName = "toyproxy"

// Names of sets and maps that do not depend on what the table holds.
const (
	frontendsSet  = "frontends"
	clusterIPsSet = "cluster-ips"
	endpointsMap  = "endpoints"
	manyMap       = "endpoints-many"
	stickyMap     = "sticky"
	restrictedSet = "restricted"
	allowedSet    = "allowed"
	hairpinSet    = "hairpin"
	refuseSet     = "refuse-all"
)

// Names of chains that do not depend on what the table holds.
const (
	preroutingChain  = "prerouting"
	outputChain      = "output"
	postroutingChain = "postrouting"
	inputChain       = "input"
	forwardChain     = "forward"
	servicesChain    = "services"
	straysChain      = "strays"
	frontendChain    = "frontend"
	refuseChain      = "refuse"
)

// layout is all that our table of one family holds; the zero layout of a family
// is no table at all.
type layout struct {
	family dataplane.Family
	sets   []set
	chains []chain
}

func (l layout) empty() bool { return len(l.chains) == 0 }

// kind says what the elements of a set are.
type kind uint8

const (
	// frontendKeys: address, protocol, port.
	frontendKeys kind = iota
	// addresses: one address.
	addresses
	// pairs: source and destination address.
	pairs
	// ranges: address, protocol, port, and a range of sources.
	ranges
	// endpointRows: address, protocol, port and number lead to address and port.
	endpointRows
	// chainRows: address, protocol, port and number lead to a chain.
	chainRows
	// frontendChains: address, protocol, port lead to a chain.
	frontendChains
	// clients: addresses that the kernel itself remembers for a time.
	clients
)

// numbered reports whether keys end with the number of a row.
func (k kind) numbered() bool { return k == endpointRows || k == chainRows }

// isMap reports whether elements lead to something.
func (k kind) isMap() bool { return k == endpointRows || k == chainRows || k == frontendChains }

// toChain reports whether elements lead to chains.
func (k kind) toChain() bool { return k == chainRows || k == frontendChains }

// isData reports whether the elements are looked up only by packets that some
// other set has led there: they come before its elements and go after them.
func (k kind) isData() bool { return k == endpointRows || k == chainRows || k == ranges }

// set is a set or a map with its elements.
type set struct {
	name    string
	kind    kind
	comment string
	// elements are those of sets whose keys have no number.
	elements []element
	// rows are the elements of the others.
	rows []rows
}

// len is the number of elements.
func (s set) len() int { return len(s.elements) + count(s.rows) }

// all are the elements, one by one.
func (s set) all() iter.Seq[element] {
	return func(yield func(element) bool) {
		for _, e := range s.elements {
			if !yield(e) {
				return
			}
		}
		for e := range each(s.rows) {
			if !yield(e) {
				return
			}
		}
	}
}

// element is one element of a set or map.
type element struct {
	// key is the key, or the lowest one of a range.
	key string
	// end is the highest key of a range, else empty.
	end string
	// to is what elements of maps lead to: address and port, or the name of a
	// chain.
	to string
	// comment names the Service.
	comment string
}

// hook is where a base chain is called from.
type hook struct {
	// name as nft writes it, number and priority as the kernel has them.
	name     string
	number   uint32
	priority int32
	// order is the priority as nft writes it.
	order string
	// kind is the type of chain that is called: see below.
	kind string
}

// The hooks that chains of type nat are called from, for the first packet of a
// flow.
var (
	atPrerouting  = hook{"prerouting", 0, -100, "dstnat", "nat"}
	atOutput      = hook{"output", 3, -100, "-100", "nat"}
	atPostrouting = hook{"postrouting", 4, 100, "srcnat", "nat"}
)

// The hooks that chains of type filter are called from, for every packet.
var (
	atInput   = hook{"input", 1, 0, "filter", "filter"}
	atForward = hook{"forward", 2, 0, "filter", "filter"}
)

// chain is a list of rules.
type chain struct {
	name string
	// comment names the Service the chain is for.
	comment string
	// hook is the zero hook but for base chains.
	hook  hook
	rules []rule
}

func (c chain) isBase() bool { return c.hook.name != "" }

// rule is a list of statements.
type rule []statement
