package dns

import (
	"net/netip"
	"strings"
	"sync"

	mdns "github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/types"
)

// Options say what zone to serve.
type Options struct {
	// Domain is the cluster domain, such as "cluster.local"; a final dot is optional.
	Domain string
	// TTL of all records, in seconds.
	TTL uint32
	// Server are the addresses by which Pods know cluster DNS: what ns.dns.DOMAIN
	// has. Without any, they are those of Service kube-system/kube-dns.
	Server []netip.Addr
}

// Zone holds the records of a cluster. It is safe for concurrent use.
//
// It keeps what records are made of (addresses, names, ports) rather than records:
// a name is found by its labels and its records are made for the answer, in the case
// in which they were asked for. So 100,000 endpoints cost a few MB, and callers own
// what they are given.
type Zone struct {
	domain string // lower case, with the final dot
	ttl    uint32
	server []netip.Addr

	// writing is held by whoever changes the zone; what it makes is put in place
	// under mu, so that answers wait for a map's change and nothing else.
	writing sync.Mutex
	mu      sync.RWMutex
	serial  uint32
	// services by "name.namespace", as these labels stand in a question. A value
	// is never changed but replaced.
	services map[string]*service
	// spaces are the namespaces that exist.
	spaces map[string]space
	// pods counts the Pods of a namespace at an address: more than one when they
	// use the node's network.
	pods map[podAddr]int
	// owners has, for each address, the Services to ask for its names; further
	// ones are in shared.
	owners map[netip.Addr]string
	shared map[netip.Addr][]string

	// Of the objects themselves only what tells their records before a change:
	// under writing.
	podAddrs map[types.NamespacedName][]netip.Addr
	sliceOf  map[types.NamespacedName]string
}

// space is why a namespace exists: it is an object, or has objects in it, as
// manifests may do without naming it.
type space struct {
	object bool
	uses   int
}

type podAddr struct {
	namespace string
	addr      netip.Addr
}

// New returns a zone without objects.
func New(options Options) *Zone {
	return &Zone{
		domain:   strings.ToLower(mdns.Fqdn(options.Domain)),
		ttl:      options.TTL,
		server:   options.Server,
		services: map[string]*service{},
		spaces:   map[string]space{},
		pods:     map[podAddr]int{},
		owners:   map[netip.Addr]string{},
		shared:   map[netip.Addr][]string{},
		podAddrs: map[types.NamespacedName][]netip.Addr{},
		sliceOf:  map[types.NamespacedName]string{},
	}
}

// defaultServer is the Service that stands for cluster DNS everywhere.
const defaultServer = "kube-dns.kube-system"

// serverAddrs are the addresses of ns.dns.DOMAIN.
func (z *Zone) serverAddrs() []netip.Addr {
	if len(z.server) > 0 {
		return z.server
	}
	if s := z.services[defaultServer]; s != nil {
		return s.vips
	}
	return nil
}
