package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"time"
)

// Protocol is a transport protocol, by its IP protocol number.
type Protocol uint8

// The protocols a Service port may have.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String returns the name that iptables and /etc/protocols use: tcp, udp, sctp.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return fmt.Sprintf("protocol-%d", uint8(p))
}

// Family is an IP address family.
type Family uint8

// The two families. A node may lack either.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// String returns "IPv4" or "IPv6", as Kubernetes spells them.
func (f Family) String() string { return fmt.Sprintf("IPv%d", uint8(f)) }

// Bits is the length of an address of the family: 32 or 128.
func (f Family) Bits() int {
	if f == IPv6 {
		return 128
	}
	return 32
}

// FamilyOf returns the family of an address. IPv4-mapped IPv6 addresses never
// reach a Table: decoding refuses them.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// Kind says through which door of a Service a frontend was made. It is shown to
// people; backends need it only for NodePort, which has no address of its own.
type Kind uint8

// The four doors of a Service.
const (
	ClusterIP Kind = iota
	NodePort
	ExternalIP
	LoadBalancerIP
)

// String returns the Kubernetes name of the kind.
func (k Kind) String() string {
	return [...]string{"ClusterIP", "NodePort", "ExternalIP", "LoadBalancerIP"}[k]
}

// Key identifies a frontend: what a client dials. Two frontends of one table
// never have the same Key.
type Key struct {
	// Addr is the address dialled. For NodePort it is the unspecified address
	// of the family and stands for every address in Node.Addrs of that family,
	// but for those that another frontend of the table has with the same
	// protocol and port: the very address goes before.
	Addr     netip.Addr
	Protocol Protocol
	Port     uint16
}

// String returns "10.96.0.10:80/tcp" or "[fd00::a]:80/tcp".
func (k Key) String() string {
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(k.Addr, k.Port), k.Protocol)
}

// Compare orders keys by address, protocol, port.
func (k Key) Compare(o Key) int {
	return cmp.Or(k.Addr.Compare(o.Addr), cmp.Compare(k.Protocol, o.Protocol), cmp.Compare(k.Port, o.Port))
}

// Verdict is what becomes of a packet that reaches a frontend.
type Verdict uint8

const (
	// Forward sends a new flow to one endpoint of the route's set.
	Forward Verdict = iota
	// Refuse answers at once: TCP with a reset, others with ICMP port
	// unreachable. No endpoint is usable anywhere.
	Refuse
	// Drop discards silently: endpoints exist, but policy leaves none here.
	Drop
)

// String returns "forward", "refuse" or "drop".
func (v Verdict) String() string { return [...]string{"forward", "refuse", "drop"}[v] }

// Source classifies where a packet comes from. Each packet has exactly one.
type Source uint8

const (
	// FromPod: a Pod of this cluster, by Node.PodRanges or Node.PodInterfaces.
	FromPod Source = iota
	// FromNode: a process of the node itself, not in a Pod range.
	FromNode
	// FromOutside: everything else.
	FromOutside
	// Sources is the number of classes, for arrays indexed by Source.
	Sources
)

// String returns "pod", "node" or "outside".
func (s Source) String() string { return [...]string{"pod", "node", "outside"}[s] }

// Route is the fate of the packets of one source class at one frontend.
type Route struct {
	Verdict Verdict
	// Set names the EndpointSet of the table to choose from; empty unless
	// Verdict is Forward. A set that is named is never empty.
	Set string
	// Masquerade: rewrite the source to the node's egress address.
	// Independently of it, a packet that would arrive at the very endpoint it
	// came from (hairpin) is always rewritten; see Endpoint.Local.
	Masquerade bool
}

// Frontend is one address, port and protocol that clients dial.
type Frontend struct {
	Key
	Kind Kind
	// Service is the origin for people, logs and rule comments:
	// "namespace/name" or "namespace/name:port". Frontends of one Service port
	// share it.
	Service string
	// Routes holds the fate by source class: Routes[FromPod] and so on.
	Routes [Sources]Route
	// Allowed lists the only source ranges that may use this frontend, all of
	// the frontend's family, masked, sorted and free of duplicates. Nil allows
	// every source; others are dropped, whatever their class and before the
	// routes are asked: also where those would refuse.
	Allowed []netip.Prefix
}

// Endpoint is one Pod address and port that serves a Service port.
type Endpoint struct {
	Addr netip.AddrPort
	// Weight is the share relative to the others of the set. At least 1.
	Weight uint16
	// Local: the endpoint lives on this node, or may do so (its node is not
	// known). Only then can its own traffic come back to it through a frontend.
	Local bool
	// Name is the Pod, "namespace/name", for people. May be empty.
	Name string
}

// EndpointSet is a list of endpoints that one or more routes choose from.
type EndpointSet struct {
	// Name is unique in the table and stable over changes of the endpoints:
	// kernel objects are named after it.
	Name string
	// Service is the origin, as in Frontend.
	Service string
	// Endpoints is sorted by address, free of duplicates, of one family and
	// never empty.
	Endpoints []Endpoint
	// Affinity, when positive, sends all new flows of one client address to
	// one endpoint until that long has passed without a new flow. Sets of the
	// same Service, protocol and family share their memory of clients.
	Affinity time.Duration
	Protocol Protocol
	// Scheduler is the name of a kernel scheduler that the Service wishes, of
	// lower-case letters; empty for none. A wish that only ipvs knows: it uses
	// its default where the kernel has no such scheduler, other backends do not
	// look at it. All sets of one Service have the same.
	Scheduler string
}

// Node holds the facts about the node that the rules depend on.
type Node struct {
	// PodRanges are the ranges Pod addresses come from: a source inside is a
	// Pod. With none for a family, and no PodInterfaces, nobody can tell Pods
	// from what is outside: both have the same routes then, and only where
	// FromNode has others must the node's own packets be told apart.
	PodRanges []netip.Prefix
	// PodInterfaces, when not empty, replaces PodRanges as what makes a source a
	// Pod: the packet came in through one of these links. Each is a link's name,
	// or with "+" as its last character the beginning of one. Packets that the
	// node itself sends have no such link and are FromNode.
	PodInterfaces []string
	// ServiceRanges are the ranges ClusterIPs come from. A packet to an
	// address inside that no frontend has is dropped, never routed away.
	ServiceRanges []netip.Prefix
	// Addrs are the node addresses on which NodePort frontends answer, sorted
	// and free of duplicates. Loopback addresses are among them only by wish.
	Addrs []netip.Addr
	// MasqueradeMark is the one bit of the packet mark that says "masquerade".
	// Zero stands for DefaultMasqueradeMark; see Marks.
	MasqueradeMark uint32
}

// Table lists the frontends of one node with the endpoints each may use and
// every policy already decided. The zero Table has no frontends.
type Table struct {
	Node Node
	// Frontends is sorted by Key, without duplicates.
	Frontends []Frontend
	// Sets is sorted by Name, without duplicates; each is named by some route.
	Sets []EndpointSet
}

// Sort puts frontends and sets in their canonical order.
func (t *Table) Sort() {
	slices.SortFunc(t.Frontends, func(a, b Frontend) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(t.Sets, func(a, b EndpointSet) int { return cmp.Compare(a.Name, b.Name) })
}

// Set returns the endpoint set of that name.
func (t Table) Set(name string) (EndpointSet, bool) {
	i := sort.Search(len(t.Sets), func(i int) bool { return t.Sets[i].Name >= name })
	if i < len(t.Sets) && t.Sets[i].Name == name {
		return t.Sets[i], true
	}
	return EndpointSet{}, false
}

// Frontend returns the frontend with that key.
func (t Table) Frontend(k Key) (Frontend, bool) {
	i := sort.Search(len(t.Frontends), func(i int) bool { return t.Frontends[i].Key.Compare(k) >= 0 })
	if i < len(t.Frontends) && t.Frontends[i].Key == k {
		return t.Frontends[i], true
	}
	return Frontend{}, false
}

// ForFamily returns the part of the table that concerns one family.
func (t Table) ForFamily(f Family) Table {
	keep := func(p netip.Prefix) bool { return FamilyOf(p.Addr()) != f }
	out := Table{Node: t.Node}
	out.Node.PodRanges = slices.DeleteFunc(slices.Clone(t.Node.PodRanges), keep)
	out.Node.ServiceRanges = slices.DeleteFunc(slices.Clone(t.Node.ServiceRanges), keep)
	out.Node.Addrs = slices.DeleteFunc(slices.Clone(t.Node.Addrs), func(a netip.Addr) bool { return FamilyOf(a) != f })
	out.Frontends = only(t.Frontends, func(fe *Frontend) bool { return FamilyOf(fe.Addr) == f })
	out.Sets = only(t.Sets, func(s *EndpointSet) bool { return FamilyOf(s.Endpoints[0].Addr.Addr()) == f })
	return out
}

// only returns the part of a list for which keep holds. It is the list itself where
// that is all of it, as it mostly is.
func only[T any](list []T, keep func(*T) bool) []T {
	n := 0
	for i := range list {
		if keep(&list[i]) {
			n++
		}
	}
	switch n {
	case 0:
		return nil
	case len(list):
		return slices.Clip(list)
	}
	out := make([]T, 0, n)
	for i := range list {
		if keep(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}
