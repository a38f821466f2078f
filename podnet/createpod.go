package podnet

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// creation collects the changes of one Create.
type creation struct {
	node  *Node
	plan  *Plan
	facts nodeFacts
	// old is the record as it stands, next as it will be.
	old, next record
}

// add plans one network.
func (c *creation) add(r Request) error {
	if err := CheckNamespaceName(r.Name); err != nil {
		return err
	}
	pod, err := c.node.observePod(r.Name)
	if err != nil {
		return err
	}
	had, recorded := c.old.Networks[r.Name]
	if err := c.node.foreign(r.Name, pod, recorded, c.facts.id); err != nil {
		return err
	}
	b := &podBuilder{node: c.node, facts: c.facts, pod: pod, request: r}
	if recorded && (r.Renew || !c.node.Fits(had)) {
		b.steps = c.node.deleteSteps(had, pod, c.facts)
		b.pod = podFacts{files: maps.Clone(pod.files)}
		maps.DeleteFunc(b.pod.files, func(_, text string) bool { return strings.HasPrefix(text, fileMark) }) // ours go too
		b.forgotten = had.HostLink
		recorded = false
	}
	net := Network{Name: r.Name, For: r.For, Addrs: had.Addrs, HostLink: had.HostLink}
	if !recorded {
		if net.Addrs, err = c.next.allocate(r.Name, c.node.cfg.PodRanges); err != nil {
			return err
		}
	}
	net.HostLink = c.freeHostLink(net, b.pod)
	c.next.Networks[r.Name] = net
	b.net = net
	b.build()
	c.plan.Networks = append(c.plan.Networks, net)
	c.plan.Notes = append(c.plan.Notes, b.notes...)
	if len(b.steps) > 0 {
		c.plan.groups = append(c.plan.groups, group{r.Name, b.steps})
	}
	return nil
}

// Fits reports whether a network has the addresses that the configuration asks
// for: one in each Pod range. If not, Create gives it new ones in a namespace of
// a new one.
func (n *Node) Fits(net Network) bool { return net.fits(n.cfg.PodRanges) }

// foreign reports a namespace or a file in our way that is not ours.
func (n *Node) foreign(name string, pod podFacts, recorded bool, node uint64) error {
	path := n.Path(name)
	switch {
	case pod.file == namespace && !pod.ours(recorded, node):
		return fmt.Errorf("network namespace %s exists and was not made by toyproxy for this node: rename the Pod, or remove it with `ip netns del %s`", path, name)
	case pod.file == plain && (!recorded || pod.size > 0):
		return fmt.Errorf("file %s is no network namespace and was not left by toyproxy: remove it with `rm %s`", path, path)
	}
	return nil
}

// freeHostLink returns the name for the node's end of a veth pair: the one it
// has, or the first that nobody else has.
func (c *creation) freeHostLink(net Network, pod podFacts) string {
	free := func(name string) bool {
		for _, other := range c.next.Networks {
			if other.HostLink == name && other.Name != net.Name {
				return false
			}
		}
		l, exists := c.facts.links[name]
		return !exists || pairOf(l, pod.eth) || l.alias == hostMark(net.Name)
	}
	if net.HostLink != "" && free(net.HostLink) {
		return net.HostLink
	}
	for salt := 0; ; salt++ {
		if name := hostLink(net.Name, salt); free(name) {
			return name
		}
	}
}

func hostMark(namespace string) string { return bridgeMark + " " + namespace }

// podBuilder collects the steps that complete one network.
type podBuilder struct {
	node    *Node
	facts   nodeFacts
	pod     podFacts
	net     Network
	request Request
	// forgotten is the host link that the steps so far remove.
	forgotten string
	steps     []step
	notes     []string
}

func (b *podBuilder) add(op dataplane.Op, object, reason string, lines []string, do func(*kernel) error) {
	c := dataplane.Change{Op: op, Object: object, For: b.request.For, Reason: reason, Lines: lines}
	b.steps = append(b.steps, step{c, do})
}

func (b *podBuilder) build() {
	b.namespace()
	b.pair()
	b.inside()
	b.files()
}

func (b *podBuilder) namespace() {
	path, mark := b.node.Path(b.net.Name), ownMark(b.facts.id)
	if b.pod.file == namespace && b.pod.mark == mark && b.pod.loUp {
		return
	}
	lines := []string{"+ ip netns add " + b.net.Name, "+ ip -n " + b.net.Name + " link set lo up"}
	object := "network namespace " + b.net.Name
	switch b.pod.file {
	case absent:
		b.add(dataplane.Add, object, "missing", lines, func(*kernel) error { return makeNamespace(path, mark) })
	case plain:
		b.add(dataplane.Add, object, "its file was left without a namespace", lines, func(*kernel) error {
			if err := removeNamespace(path); err != nil {
				return err
			}
			return makeNamespace(path, mark)
		})
	case namespace:
		b.add(dataplane.Update, object, "its loopback link is down, or has another node's mark", lines[1:], func(*kernel) error {
			return within(path, func(k *kernel) error { return k.addLoopback(mark) })
		})
	}
}

func (b *podBuilder) pair() {
	path, name := b.node.Path(b.net.Name), b.net.HostLink
	p := pair{host: name, alias: hostMark(b.net.Name), bridge: b.node.cfg.Bridge, namespace: path, mtu: b.node.cfg.MTU, mac: hardwareAddress(b.net.Addrs)}
	object := fmt.Sprintf("link %s, %s in %s", name, podLink, b.net.Name)
	l, exists := b.facts.links[name]
	if exists && name == b.forgotten {
		l, exists = link{}, false
	}
	if exists && pairOf(l, b.pod.eth) {
		if reason := b.unfinished(l); reason != "" {
			b.add(dataplane.Update, object, reason, nil, func(k *kernel) error { return k.addPair(p) })
		}
		return
	}
	if exists {
		b.add(dataplane.Remove, "link "+name, "left without its Pod", []string{"- ip link del " + name}, func(k *kernel) error { return k.delLink(name) })
	}
	if b.pod.eth.index != 0 {
		b.add(dataplane.Remove, podLink+" in "+b.net.Name, "leads elsewhere", nil, func(*kernel) error {
			return within(path, func(k *kernel) error { return k.delLink(podLink) })
		})
	}
	b.pod.eth, b.pod.addrs, b.pod.routes = link{}, nil, nil
	lines := []string{fmt.Sprintf("+ ip link add %s mtu %d master %s type veth peer %s netns %s", name, p.mtu, p.bridge, podLink, b.net.Name),
		fmt.Sprintf("+ bridge link set dev %s hairpin on", name)}
	b.add(dataplane.Add, object, "missing", lines, func(k *kernel) error { return k.addPair(p) })
}

// hardwareAddress of a Pod follows from its first address: whoever has the address
// later, or a new link of the same Pod, is met by what neighbours still remember.
func hardwareAddress(addrs []netip.Addr) net.HardwareAddr {
	if len(addrs) == 0 {
		return nil
	}
	b := addrs[0].AsSlice()
	return append(net.HardwareAddr{0x0a, 0x58}, b[len(b)-4:]...)
}

// unfinished says what is wrong with the node's end of a pair, or "".
func (b *podBuilder) unfinished(l link) string {
	switch {
	case l.master != b.facts.links[b.node.cfg.Bridge].index:
		return "is no port of " + b.node.cfg.Bridge
	case !l.hairpin:
		return "its port is not in hairpin mode"
	case !l.up:
		return "is down"
	case l.mtu != b.node.cfg.MTU:
		return fmt.Sprintf("has MTU %d, want %d", l.mtu, b.node.cfg.MTU)
	case l.alias != hostMark(b.net.Name):
		return "was left half made"
	}
	return ""
}

// inside completes what lies in the namespace: link, addresses, routes.
func (b *podBuilder) inside() {
	path, name, mtu := b.node.Path(b.net.Name), b.net.Name, b.node.cfg.MTU
	if !b.pod.eth.up || b.pod.eth.mtu != mtu {
		b.add(dataplane.Update, podLink+" in "+name, "is down, or has another MTU",
			[]string{fmt.Sprintf("+ ip -n %s link set %s mtu %d up", name, podLink, mtu)},
			func(*kernel) error { return within(path, func(k *kernel) error { return k.setLink(podLink, mtu) }) })
	}
	for i, a := range b.net.Addrs {
		gw := gateway(b.node.cfg.PodRanges[i])
		if !slices.Contains(b.pod.addrs, host(a)) {
			b.add(dataplane.Add, fmt.Sprintf("address %s in %s", a, name), "missing",
				[]string{fmt.Sprintf("+ ip -n %s addr add %s dev %s", name, host(a), podLink)},
				func(*kernel) error { return within(path, func(k *kernel) error { return k.addAddr(podLink, host(a)) }) })
		}
		if !b.pod.hasDefault(gw) {
			b.add(dataplane.Add, fmt.Sprintf("default route by %s in %s", gw, name), "missing",
				[]string{fmt.Sprintf("+ ip -n %s route add default via %s dev %s onlink", name, gw, podLink)},
				func(*kernel) error { return within(path, func(k *kernel) error { return addDefault(k, gw) }) })
		}
	}
}

// addDefault routes everything to a gateway that no range of the link holds.
func addDefault(k *kernel, gw netip.Addr) error {
	if err := k.addRoute(podLink, host(gw), netip.Addr{}); err != nil {
		return err
	}
	unspecified := netip.IPv4Unspecified()
	if gw.Is6() {
		unspecified = netip.IPv6Unspecified()
	}
	return k.addRoute(podLink, netip.PrefixFrom(unspecified, 0), gw)
}

func (b *podBuilder) files() {
	if b.facts.etcReadOnly {
		return // planNode has told
	}
	want := etcFiles(b.net, b.request)
	for _, file := range []string{"hosts", "resolv.conf"} {
		have, exists := b.pod.files[file]
		content, wanted := want[file]
		path := b.node.etcPath(b.net.Name, file)
		switch {
		case have == content && exists == wanted:
		case exists && !strings.HasPrefix(have, fileMark):
			b.notes = append(b.notes, fmt.Sprintf("file %s was not written by toyproxy: left as it is", path))
		case !wanted:
			b.add(dataplane.Remove, "file "+path, "no longer wanted", nil, func(*kernel) error { return b.node.removeEtc(b.net.Name, file) })
		case exists:
			b.add(dataplane.Update, "file "+path, "differs", nil, func(*kernel) error { return wrap(replaceFile(path, content), "file "+path) })
		default:
			b.add(dataplane.Add, "file "+path, "missing", nil, func(*kernel) error { return wrap(replaceFile(path, content), "file "+path) })
		}
	}
}

// within calls f with netlink inside the namespace with that file.
func within(path string, f func(*kernel) error) error {
	return Do(path, func() error {
		k, err := openKernel()
		if err != nil {
			return err
		}
		defer k.close()
		return f(k)
	})
}
