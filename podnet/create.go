package podnet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/sysctl"
)

// protocolRA is the protocol of routes learnt from router advertisements.
const protocolRA = 9

// Create plans the networks of these Pods: it makes what is missing, finishes
// what a crash left half made, and repairs what somebody took away. It also
// makes the bridge, unless there are no requests: then it sets at most what
// Config.Forward asks for. Other networks stay.
func (n *Node) Create(_ context.Context, requests []Request) (*Plan, error) {
	plan := &Plan{node: n, sysctls: dataplane.Plans{}}
	if len(requests) == 0 && !n.cfg.Forward {
		return plan, nil
	}
	k, err := openKernel()
	if err != nil {
		return nil, err
	}
	defer k.close()
	f, err := n.observeNode(k)
	if err != nil {
		return nil, err
	}
	rec, err := n.current(f)
	if err != nil {
		return nil, err
	}
	if len(requests) == 0 {
		return plan, n.forward(plan, f)
	}
	if err := n.planNode(plan, rec, f); err != nil {
		return nil, err
	}
	c := &creation{node: n, plan: plan, facts: f, old: rec, next: rec.clone()}
	for _, r := range requests {
		if err := c.add(r); err != nil {
			plan.Failures = append(plan.Failures, Failure{r.Name, err})
		}
	}
	redirects := ""
	if len(plan.sysctls.Changes()) > 0 {
		redirects = readSysctl(redirectsKey)
	}
	plan.edit = func(networks []Network, rec *record) error { return c.edit(networks, rec, redirects) }
	return plan, nil
}

// forward plans the kernel parameters of a node that forwards and has no Pods.
func (n *Node) forward(plan *Plan, f nodeFacts) (err error) {
	plan.sysctls, err = sysctl.Plan(n.settings(f), n.statePath(journalFile))
	if err != nil || len(plan.sysctls.Changes()) == 0 {
		return err
	}
	redirects := readSysctl(redirectsKey)
	plan.edit = func(_ []Network, rec *record) error {
		rec.Redirects = cmp.Or(rec.Redirects, redirects)
		return nil
	}
	return nil
}

// edit writes down what is about to be made.
func (c *creation) edit(networks []Network, rec *record, redirects string) error {
	for _, net := range networks {
		for _, a := range net.Addrs {
			if owner := rec.owner(a); owner != "" && owner != net.Name {
				return fmt.Errorf("address %s, planned for %s: network %s has taken it meanwhile; plan again", a, net.Name, owner)
			}
		}
	}
	for _, net := range networks {
		rec.Networks[net.Name] = net
	}
	for r, a := range c.next.Last {
		rec.Last[r] = a
	}
	rec.Bridge = c.node.cfg.Bridge
	for _, d := range c.facts.missingDirs {
		if !slices.Contains(rec.Dirs, d) {
			rec.Dirs = append(rec.Dirs, d)
		}
	}
	rec.Mounted = rec.Mounted || c.facts.mustShare()
	rec.Redirects = cmp.Or(rec.Redirects, redirects)
	return nil
}

// mustShare: the namespaces' directory becomes a mount of its own. One that holds
// other people's namespaces already is left as it is.
func (f nodeFacts) mustShare() bool { return !f.shared && f.namespaces == 0 }

// planNode adds the changes for what all Pods share.
func (n *Node) planNode(plan *Plan, rec record, f nodeFacts) (err error) {
	if err := n.conflict(rec, f); err != nil {
		return err
	}
	if plan.sysctls, err = sysctl.Plan(n.settings(f), n.statePath(journalFile)); err != nil {
		return err
	}
	if f.etcReadOnly {
		plan.Notes = append(plan.Notes, fmt.Sprintf("%s is on a read-only file system: no hosts and resolv.conf of Pods are written, so `ip netns exec` shows those of the node and no cluster DNS", n.cfg.EtcNetnsDir))
	}
	if f.mustShare() {
		plan.before = append(plan.before, n.shareStep())
	}
	br := f.links[n.cfg.Bridge]
	if s, ok := n.bridgeStep(br, f.id); ok {
		plan.before = append(plan.before, s)
	}
	for _, r := range n.cfg.PodRanges {
		p := netip.PrefixFrom(gateway(r), r.Bits())
		if br.index == 0 || !slices.Contains(f.addrs[br.index], p) {
			plan.before = append(plan.before, addrStep(n.cfg.Bridge, p, "the gateway of the Pods"))
		}
	}
	for _, r := range n.serviceRanges() {
		i := slices.IndexFunc(f.routes, func(have route) bool { return have.dst == r })
		switch {
		case i < 0:
			plan.before = append(plan.before, n.serviceStep(r))
		case f.routes[i].link != br.index || br.index == 0:
			plan.Notes = append(plan.Notes, fmt.Sprintf("the route to Service range %s leads elsewhere and is not ours: left as it is", r))
		}
	}
	return nil
}

// conflict reports what stands in the way and is not ours.
func (n *Node) conflict(rec record, f nodeFacts) error {
	br, exists := f.links[n.cfg.Bridge]
	if exists && (br.kind != "bridge" || rec.Bridge != br.name && br.alias != bridgeMark) {
		return fmt.Errorf("link %s (%s) exists and was not made by toyproxy: rename or remove it", br.name, br.kind)
	}
	for _, l := range f.links {
		for _, a := range f.addrs[l.index] {
			for _, r := range n.cfg.PodRanges {
				if l.index != br.index && r.Contains(a.Addr()) {
					return fmt.Errorf("Pod range %s is in use: %s has the address %s; choose another range", r, l.name, a)
				}
			}
		}
	}
	return nil
}

// serviceRanges are those of a family that Pods have.
func (n *Node) serviceRanges() []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(n.cfg.ServiceRanges), func(s netip.Prefix) bool {
		return !slices.ContainsFunc(n.cfg.PodRanges, func(p netip.Prefix) bool { return p.Addr().Is4() == s.Addr().Is4() })
	})
}

// settings are the kernel parameters of a node that forwards for Pods.
func (n *Node) settings(f nodeFacts) []sysctl.Setting {
	var out []sysctl.Setting
	for _, r := range n.cfg.PodRanges {
		if r.Addr().Is4() {
			out = append(out, sysctl.Setting{Key: "net.ipv4.ip_forward", Want: "1", Why: "the node forwards packets of Pods"})
			continue
		}
		// A node that forwards ignores router advertisements unless told not
		// to, and would lose its own default route.
		for _, name := range slices.Sorted(maps.Keys(f.links)) {
			l := f.links[name]
			key := "net/ipv6/conf/" + l.name + "/accept_ra"
			learns := slices.ContainsFunc(f.routes, func(r route) bool { return r.link == l.index && r.protocol == protocolRA })
			if learns && readSysctl(key) == "1" {
				out = append(out, sysctl.Setting{Key: key, Want: "2", Why: "a forwarding node keeps its route from router advertisements only so"})
			}
		}
		out = append(out, sysctl.Setting{Key: "net.ipv6.conf.all.forwarding", Want: "1", Why: "the node forwards packets of Pods"})
	}
	return out
}

func (n *Node) shareStep() step {
	dir := n.cfg.NetnsDir
	return step{
		dataplane.Change{Op: dataplane.Add, Object: "mount " + dir, Reason: "shared, so that namespaces end everywhere when they are deleted",
			Lines: []string{"+ mount --bind " + dir + " " + dir, "+ mount --make-rshared " + dir}},
		func(*kernel) error { return makeShared(dir) },
	}
}

func (n *Node) bridgeStep(br link, node uint64) (step, bool) {
	mtu, mac := n.cfg.MTU, bridgeAddress(n.cfg.Bridge, node)
	c := dataplane.Change{Op: dataplane.Add, Object: "link " + n.cfg.Bridge, Reason: "missing: the bridge of the Pods",
		Lines: []string{fmt.Sprintf("+ ip link add %s mtu %d type bridge", n.cfg.Bridge, mtu)}}
	if br.index != 0 {
		c.Op, c.Lines = dataplane.Update, nil
		switch {
		case !br.up:
			c.Reason = "is down"
		case br.mtu != mtu:
			c.Reason = fmt.Sprintf("has MTU %d, want %d", br.mtu, mtu)
		case br.alias != bridgeMark:
			c.Reason = "was left half made"
		default:
			return step{}, false
		}
	}
	return step{c, func(k *kernel) error { return k.addBridge(n.cfg.Bridge, mtu, mac) }}, true
}

func (n *Node) serviceStep(r netip.Prefix) step {
	return step{
		dataplane.Change{Op: dataplane.Add, Object: "route " + r.String(), Reason: "Service addresses stay on this node, whatever its default route",
			Lines: []string{fmt.Sprintf("+ ip route add %s dev %s proto %d", r, n.cfg.Bridge, routeProtocol)}},
		func(k *kernel) error { return k.addRoute(n.cfg.Bridge, r, netip.Addr{}) },
	}
}

func addrStep(name string, p netip.Prefix, why string) step {
	return step{
		dataplane.Change{Op: dataplane.Add, Object: fmt.Sprintf("address %s of %s", p, name), Reason: "missing: " + why,
			Lines: []string{fmt.Sprintf("+ ip addr add %s dev %s", p, name)}},
		func(k *kernel) error { return k.addAddr(name, p) },
	}
}
