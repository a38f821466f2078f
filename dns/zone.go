package dns

import (
	"net/netip"
	"sync"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/cluster"
)

// Options say what zone to serve.
type Options struct {
	// Domain is the cluster domain, such as "cluster.local"; a final dot is optional.
	Domain string
	// TTL of all records, in seconds.
	TTL uint32
	// Server are the addresses by which Pods know cluster DNS (those of Service
	// kube-dns): what ns.dns.DOMAIN has.
	Server []netip.Addr
}

// Zone holds the records of a cluster. It is safe for concurrent use.
type Zone struct {
	mu      sync.RWMutex
	options Options
}

// New returns a zone without objects.
func New(options Options) *Zone { return &Zone{options: options} }

// Change is what one event changed in the zone, for the history. Records are in
// the form of a zone file: "web.default.svc.cluster.local. 5 IN A 10.96.0.10".
type Change struct {
	Object         cluster.Ref
	Added, Removed []string
}

// Apply takes events of Services, EndpointSlices, Pods and Namespaces (others are
// ignored) that happened by a time, which becomes the zone's serial, and returns what
// they changed, events without effect left out.
func (z *Zone) Apply(events []cluster.Event, now time.Time) []Change {
	z.mu.Lock()
	defer z.mu.Unlock()
	return nil
}

// Answer is what the zone says to one question.
type Answer struct {
	// Ours is false when the name is not of this zone: somebody else must be asked.
	Ours  bool
	Rcode int
	// The three sections.
	Answer, Authority, Extra []mdns.RR
	// Chase, when not empty, is the target of the CNAME that ends Answer, outside of
	// the zone: the server appends what its forwarders say of it.
	Chase string
}

// Answer answers a question: a name in any case, a type and a class.
func (z *Zone) Answer(q mdns.Question) Answer {
	z.mu.RLock()
	defer z.mu.RUnlock()
	return Answer{}
}

// Records are all records of the zone, as text, sorted.
func (z *Zone) Records() []string { return nil }
