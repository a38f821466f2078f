package lab

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Ranges of every lab. Pod pN has the addresses 10.244.0.(10+N) and
// fd00:10:244::(10+N): the same decimal digits end both.

// PodRanges returns the ranges all Pod addresses come from, on any node.
func PodRanges() []netip.Prefix { return prefixes("10.244.0.0/16", "fd00:10:244::/56") }

// NodeRanges returns the ranges the addresses of the node's own Pods come from.
func NodeRanges() []netip.Prefix { return podsN() }

// ServiceRanges returns the ranges ClusterIPs come from. X routes them to N.
func ServiceRanges() []netip.Prefix { return prefixes("10.96.0.0/12", "fd00:10:96::/112") }

// ExternalRanges returns ranges of addresses that no host has and that X also
// routes to N: for external and load-balancer addresses.
func ExternalRanges() []netip.Prefix { return prefixes("203.0.113.0/24", "fd00:203:113::/64") }

// AbroadRanges returns ranges of addresses that no host has unless a test gives
// one to X: the node knows the way to them by its default route.
func AbroadRanges() []netip.Prefix { return prefixes("198.51.100.0/24", "fd00:198:51::/64") }

func everywhere() []netip.Prefix { return prefixes("0.0.0.0/0", "::/0") }
func lan() []netip.Prefix        { return prefixes("192.0.2.0/24", "fd00:192:2::/64") }
func podsN() []netip.Prefix      { return prefixes("10.244.0.0/24", "fd00:10:244::/64") }
func podsM() []netip.Prefix      { return prefixes("10.244.1.0/24", "fd00:10:244:1::/64") }

// Names of the node's two links.
const (
	// Uplink joins the node to X and M.
	Uplink = "eth0"
	// Bridge joins the node's Pods; it bears the address .1 of the Pod range.
	Bridge = "br0"

	// portIndex is above every link index the kernel hands out in a lab.
	portIndex = 10_000
)

// Lab is a node and what surrounds it.
//
//	p1 p2 p3 … ─ bridge ─ N ─ LAN ─ X (outside client, N's default router)
//	                              └─ M ─ bridge ─ q1 (with option SecondNode)
//
// Every host has an address of both families. X does not forward: a packet to
// a Service address that N fails to handle arrives at X, and ends there.
type Lab struct {
	// Node is where backends run: 192.0.2.1, fd00:192:2::1.
	Node *Host
	// Outside is the client X: 192.0.2.10, fd00:192:2::10.
	Outside *Host
	// Pods are p1, p2, … in order.
	Pods []*Host
	// Second is the node M (192.0.2.2) and Remote its Pod q1 (10.244.1.11);
	// nil without option SecondNode.
	Second, Remote *Host
}

// Option changes what New builds.
type Option func(*settings)

type settings struct {
	pods   int
	second bool
}

// WithPods sets the number of Pods on the node; 3 if it is not given.
func WithPods(n int) Option { return func(s *settings) { s.pods = n } }

// SecondNode adds the node M with the Pod q1.
func SecondNode() Option { return func(s *settings) { s.second = true } }

// New builds a lab that lasts until the test ends. It skips or fails the test
// as Require(t, Namespaces) does.
func New(t testing.TB, opts ...Option) *Lab {
	t.Helper()
	Require(t, Namespaces)
	s := settings{pods: 3}
	for _, o := range opts {
		o(&s)
	}
	l := &Lab{Outside: newHost(t, "X")}
	addBridge(l.Outside, "lan0")
	l.Outside.place("lan0", lan(), 10)
	l.Node = newNode(t, "N", podsN())
	l.join(l.Node, 1)
	for i := range s.pods {
		l.Pods = append(l.Pods, newPod(l.Node, fmt.Sprintf("p%d", i+1), podsN(), i+1))
	}
	for _, to := range [][]netip.Prefix{podsN(), ServiceRanges(), ExternalRanges()} {
		l.Outside.route(to, l.Node)
	}
	if s.second {
		l.addSecond(t)
	}
	l.settle(t)
	return l
}

// Pod returns pN, counted from 1.
func (l *Lab) Pod(n int) *Host { return l.Pods[n-1] }

func (l *Lab) addSecond(t testing.TB) {
	t.Helper()
	l.Second = newNode(t, "M", podsM())
	l.join(l.Second, 2)
	l.Remote = newPod(l.Second, "q1", podsM(), 1)
	l.Node.route(podsM(), l.Second)
	l.Second.route(podsN(), l.Node)
	l.Outside.route(podsM(), l.Second)
}

// settle waits until every link carries packets: the kernel notices from a
// queue of its own that the other end is up, and a bridge port drops what comes
// before. A lost SYN or ARP question costs a second.
func (l *Lab) settle(t testing.TB) {
	t.Helper()
	hosts := append([]*Host{l.Node, l.Outside}, l.Pods...)
	if l.Second != nil {
		hosts = append(hosts, l.Second, l.Remote)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		down := ""
		for _, h := range hosts {
			h.Link(func(nl *netlink.Handle) (err error) {
				down, err = firstDown(nl, h.Name, down)
				return err
			})
		}
		if down == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("link %s does not come up", down)
		}
	}
}

// firstDown returns down, or if that is empty a veth link that is not up yet.
func firstDown(nl *netlink.Handle, owner, down string) (string, error) {
	links, err := nl.LinkList()
	if err != nil {
		return "", fmt.Errorf("links: %w", err)
	}
	for _, l := range links {
		if down == "" && l.Type() == "veth" && l.Attrs().OperState != netlink.OperUp {
			down = owner + " " + l.Attrs().Name
		}
	}
	return down, nil
}

// newNode makes a host with a bridge for Pods, which forwards.
func newNode(t testing.TB, name string, pods []netip.Prefix) *Host {
	t.Helper()
	n := newHost(t, name)
	n.Sysctl("net.ipv4.ip_forward", "1")
	n.Sysctl("net.ipv6.conf.all.forwarding", "1")
	// The kernel answers at most one refusal a second to one address: a right
	// REJECT would look like a lost packet.
	n.Sysctl("net.ipv4.icmp_ratelimit", "0")
	n.Sysctl("net.ipv6.icmp.ratelimit", "0")
	addBridge(n, Bridge)
	for _, p := range pods {
		n.AddAddr(Bridge, netip.PrefixFrom(host(p, 1), p.Bits()))
	}
	// Answers between two Pods of one bridge have to pass the node's rules;
	// kernels without br_netfilter have no such setting.
	n.sysctl("net/bridge/bridge-nf-call-iptables", "1")
	n.sysctl("net/bridge/bridge-nf-call-ip6tables", "1")
	return n
}

// join connects a node to the LAN, with X as its default router.
func (l *Lab) join(n *Host, number uint64) {
	wire(l.Outside, "lan0", "to-"+n.Name, n, Uplink)
	n.place(Uplink, lan(), number)
	n.route(everywhere(), l.Outside)
}

// newPod makes a host on the bridge of a node.
func newPod(node *Host, name string, pods []netip.Prefix, number int) *Host {
	p := newHost(node.t, name)
	wire(node, Bridge, "to-"+name, p, "eth0")
	p.place("eth0", pods, uint64(10+number))
	for i, dst := range everywhere() {
		p.AddRoute(dst, host(pods[i], 1))
	}
	return p
}

// place gives the host the addresses that others know it by.
func (h *Host) place(link string, nets []netip.Prefix, number uint64) {
	h.IPv4, h.IPv6 = host(nets[0], number), host(nets[1], number)
	for _, p := range nets {
		h.AddAddr(link, netip.PrefixFrom(host(p, number), p.Bits()))
	}
}

// route routes destinations of both families by way of another host.
func (h *Host) route(dst []netip.Prefix, via *Host) {
	for _, p := range dst {
		h.AddRoute(p, via.Addr(dataplane.FamilyOf(p.Addr())))
	}
}

func addBridge(h *Host, name string) {
	la := netlink.NewLinkAttrs()
	la.Name = name
	// Neighbour discovery is multicast: no snooping, nothing to wait for.
	snoop := false
	h.Link(func(nl *netlink.Handle) error {
		if err := nl.LinkAdd(&netlink.Bridge{LinkAttrs: la, MulticastSnooping: &snoop}); err != nil {
			return fmt.Errorf("bridge %s: %w", name, err)
		}
		return up(nl, name)
	})
}

// wire joins a host to another one's bridge by a veth pair. The port of a Pod
// reflects packets to where they came from (hairpin), as one that dials itself
// needs.
func wire(bridgeOwner *Host, bridge, port string, h *Host, link string) {
	la := netlink.NewLinkAttrs()
	la.Name = port
	bridgeOwner.Link(func(nl *netlink.Handle) error {
		br, err := nl.LinkByName(bridge)
		if err != nil {
			return fmt.Errorf("bridge %s: %w", bridge, err)
		}
		la.MasterIndex = br.Attrs().Index
		// With the same index at both ends the kernel takes a veth for a
		// physical link, and may take a second to notice that it is up.
		la.Index = portIndex + int(h.space)
		v := &netlink.Veth{LinkAttrs: la, PeerName: link, PeerNamespace: netlink.NsFd(int(h.space))}
		if err := nl.LinkAdd(v); err != nil {
			return fmt.Errorf("link %s: %w", port, err)
		}
		if err := nl.LinkSetHairpin(v, bridge == Bridge); err != nil {
			return fmt.Errorf("hairpin of %s: %w", port, err)
		}
		return up(nl, port)
	})
	h.Link(func(nl *netlink.Handle) error { return up(nl, link) })
}

// host returns address number n of a range. For IPv6 the decimal digits of n
// are used as they are, so that 10.244.0.11 and fd00:10:244::11 go together.
func host(p netip.Prefix, n uint64) netip.Addr {
	if p.Addr().Is6() {
		n = digits(n)
	}
	b := p.Masked().Addr().AsSlice()
	for i := len(b) - 1; n > 0; i, n = i-1, n>>8 {
		b[i] |= byte(n)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// digits reads the decimal digits of n as hexadecimal ones: 11 gives 0x11.
func digits(n uint64) uint64 {
	if n < 10 {
		return n
	}
	return digits(n/10)<<4 | n%10
}

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i := range s {
		out[i] = netip.MustParsePrefix(s[i])
	}
	return out
}
