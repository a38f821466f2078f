package podnet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Plan compares the wanted nodes with those there are. It makes what is missing,
// finishes what a crash left half made, and repairs what somebody took away.
// Nodes that are wanted no more go: their Pods and rules have to be gone before.
func (u *Underlay) Plan(_ context.Context) (dataplane.Plan, error) {
	f, err := u.observe()
	if err != nil {
		return nil, err
	}
	if err := u.conflict(f); err != nil {
		return nil, err
	}
	b := &wireBuilder{u: u, facts: f}
	if f.mustShare() && len(u.cfg.Members) > 0 {
		b.steps = append(b.steps, u.node.shareStep())
	}
	b.wire()
	for _, m := range u.cfg.Members {
		b.member(m)
	}
	for _, name := range slices.Sorted(maps.Keys(f.spaces)) {
		if name != wireSpace && !b.wanted(name) {
			b.remove(name, "no Node object has this name any more")
		}
	}
	next := f.rec
	next.Nodes = nil
	for _, m := range u.cfg.Members {
		next.Nodes = append(next.Nodes, m.Name)
	}
	next.Mounted = next.Mounted || f.mustShare()
	for _, d := range f.missingDirs { // also those that the nodes' Pods need: no node knows which of them made one
		if !slices.Contains(next.Dirs, d) {
			next.Dirs = append(next.Dirs, d)
		}
	}
	return &wirePlan{underlay: u, steps: b.steps, next: &next}, nil
}

// Remove plans the removal of all nodes' namespaces and of what joins them. Their
// Pods and rules have to be gone before.
func (u *Underlay) Remove(_ context.Context) (dataplane.Plan, error) {
	f, err := u.observe()
	if err != nil {
		return nil, err
	}
	b := &wireBuilder{u: u, facts: f}
	if l, ok := f.links[u.cfg.Uplink]; ok && l.alias == underlayMark {
		b.steps = append(b.steps, delLinkStep(u.cfg.Uplink, "", "the nodes go"))
	}
	for _, name := range slices.Sorted(maps.Keys(f.spaces)) {
		if name != wireSpace {
			b.remove(name, "the nodes go")
		}
	}
	b.remove(wireSpace, "the nodes go")
	b.steps = append(b.steps, u.node.dirSteps(record{Mounted: f.rec.Mounted, Dirs: f.rec.Dirs}, f.nodeFacts)...)
	return &wirePlan{underlay: u, steps: b.steps}, nil
}

// Nodes names the nodes that there are by the record and by their marks, sorted.
func (u *Underlay) Nodes() ([]string, error) {
	f, err := u.observe()
	if err != nil {
		return nil, err
	}
	var out []string
	for name := range f.spaces {
		if name != wireSpace && (f.owns(name) || slices.Contains(f.rec.Nodes, name)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Foreign are those of the names that are network namespaces which somebody else
// has made, in their order.
func (u *Underlay) Foreign(names []string) ([]string, error) {
	asked := Underlay{u.cfg, u.node}
	asked.cfg.Members = nil
	for _, name := range names {
		if CheckNamespaceName(name) == nil {
			asked.cfg.Members = append(asked.cfg.Members, Member{Name: name})
		}
	}
	f, err := asked.observe()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range asked.cfg.Members {
		if f.spaces[m.Name].file != absent && !f.owns(m.Name) {
			out = append(out, m.Name)
		}
	}
	return out, nil
}

// conflict reports what stands in the way and is not ours.
func (u *Underlay) conflict(f wireFacts) error {
	names := []string{wireSpace}
	for _, m := range u.cfg.Members {
		names = append(names, m.Name)
	}
	for _, name := range names {
		if f.spaces[name].file != absent && !f.owns(name) {
			return fmt.Errorf("network namespace %s exists and is no node of this machine: give the Node (or the Pod) of that name another one, or remove it: ip netns del %s", name, name)
		}
	}
	up, exists := f.links[u.cfg.Uplink]
	if exists && up.alias != underlayMark {
		return fmt.Errorf("link %s (%s) exists and was not made by toyproxy: rename or remove it", up.name, up.kind)
	}
	for _, l := range f.links {
		for _, a := range f.addrs[l.index] {
			for _, r := range u.lans() {
				if l.index != up.index && r.Overlaps(a.Masked()) {
					return fmt.Errorf("range %s of the Nodes' addresses is in use: %s has the address %s; choose other addresses in status.addresses", r, l.name, a)
				}
			}
		}
	}
	for _, have := range f.routes {
		for _, r := range u.lans() {
			if have.dst.Bits() > 0 && have.dst.Overlaps(r) && (!exists || have.link != up.index) {
				return fmt.Errorf("range %s of the Nodes' addresses is in use: this machine has a route to %s; choose other addresses in status.addresses", r, have.dst)
			}
		}
	}
	return nil
}

// wirePlan is changes to the underlay.
type wirePlan struct {
	underlay *Underlay
	steps    []step
	// next is the record as it has to be while the steps are done; nil when it
	// goes with them.
	next *underlayRecord
}

// Changes implements dataplane.Plan.
func (p *wirePlan) Changes() []dataplane.Change {
	var out []dataplane.Change
	for _, s := range p.steps {
		out = append(out, s.change)
	}
	return out
}

// Apply implements dataplane.Plan.
func (p *wirePlan) Apply(ctx context.Context) error {
	if p.next != nil && len(p.steps) > 0 {
		rec := *p.next
		for _, name := range p.underlay.load(rec.Boot).Nodes { // remembered until they are gone
			if !slices.Contains(rec.Nodes, name) {
				rec.Nodes = append(rec.Nodes, name)
			}
		}
		if err := p.underlay.save(rec); err != nil {
			return err
		}
	}
	k, err := openKernel()
	if err != nil {
		return err
	}
	defer k.close()
	if err := run(ctx, k, p.steps); err != nil {
		return fmt.Errorf("network of the nodes: %w", err)
	}
	if p.next == nil {
		return p.underlay.erase()
	}
	if len(p.steps) == 0 {
		return nil
	}
	return p.underlay.save(*p.next)
}

// wireBuilder collects the steps of one plan.
type wireBuilder struct {
	u     *Underlay
	facts wireFacts
	steps []step
}

func (b *wireBuilder) add(c dataplane.Change, do func(*kernel) error) {
	b.steps = append(b.steps, step{c, do})
}

func (b *wireBuilder) wanted(name string) bool {
	return slices.ContainsFunc(b.u.cfg.Members, func(m Member) bool { return m.Name == name })
}

// space makes a namespace, or says that it is there.
func (b *wireBuilder) space(name, why string) {
	path, mark, have := b.u.node.Path(name), spaceMark(b.facts.id), b.facts.spaces[name]
	if have.file == namespace && have.mark == mark && have.loUp {
		return
	}
	c := dataplane.Change{Op: dataplane.Add, Object: "network namespace " + name, Reason: why,
		Lines: []string{"+ ip netns add " + name, "+ ip -n " + name + " link set lo up"}}
	if have.file == namespace {
		c.Op, c.Reason, c.Lines = dataplane.Update, "its loopback link is down, or has another mark", c.Lines[1:]
	}
	b.add(c, func(*kernel) error {
		if have.file == namespace {
			return within(path, func(k *kernel) error { return k.addLoopback(mark) })
		}
		var err error
		if have.file == plain {
			err = removeNamespace(path)
		}
		return errors.Join(err, makeNamespace(path, mark))
	})
}

// wire makes the bridge, and this machine's link to it.
func (b *wireBuilder) wire() {
	if len(b.u.cfg.Members) == 0 {
		return
	}
	mtu, path := b.u.cfg.MTU, b.u.node.Path(wireSpace)
	b.space(wireSpace, "missing: the wire that joins the nodes")
	if br := b.facts.ports[wireBridge]; !br.up || br.mtu != mtu {
		b.add(dataplane.Change{Op: dataplane.Add, Object: "link " + wireBridge + " in " + wireSpace, Reason: "missing or down: the bridge of the nodes",
			Lines: []string{fmt.Sprintf("+ ip -n %s link add %s mtu %d type bridge", wireSpace, wireBridge, mtu)}},
			func(*kernel) error {
				return within(path, func(k *kernel) error { return k.addBridge(wireBridge, mtu, bridgeAddress(wireBridge, b.facts.id)) })
			})
	}
	name, up := b.u.cfg.Uplink, b.facts.links[b.u.cfg.Uplink]
	port := b.facts.ports[podLink]
	if !pairOf(up, port) || !up.up || !b.joined(port) {
		b.add(dataplane.Change{Op: dataplane.Add, Object: fmt.Sprintf("link %s, %s in %s", name, podLink, wireSpace), Reason: "missing or half made: this machine's link to the nodes",
			Lines: []string{fmt.Sprintf("+ ip link add %s mtu %d type veth peer %s netns %s", name, mtu, podLink, wireSpace)}},
			func(k *kernel) error { return inOrder(b.u.addUplink(k)) })
		up = link{}
	}
	for _, r := range b.u.lans() {
		p := netip.PrefixFrom(b.u.outside(r), r.Bits())
		if up.index == 0 || !slices.Contains(b.facts.addrs[up.index], p) {
			b.steps = append(b.steps, addrStep(name, p, "this machine is the nodes' way out, and a client outside"))
		}
	}
}

// joined reports whether a link in the wire's namespace is a port of the bridge.
func (b *wireBuilder) joined(port link) bool {
	br := b.facts.ports[wireBridge]
	return port.up && br.index != 0 && port.master == br.index
}

// member makes one node: its namespace, its link to the bridge, and what lies in it.
func (b *wireBuilder) member(m Member) {
	b.space(m.Name, "missing: a node")
	path, name := b.u.node.Path(m.Name), hostLink("node/"+m.Name, 0)
	have, port := b.facts.spaces[m.Name], b.facts.ports[name]
	if have.file != namespace {
		have = podFacts{}
	}
	if !pairOf(port, have.eth) || !have.eth.up || !b.joined(port) {
		have.eth, have.addrs, have.routes = link{}, nil, nil
		b.add(dataplane.Change{Op: dataplane.Add, Object: fmt.Sprintf("link %s in %s, %s in %s", name, wireSpace, podLink, m.Name), Reason: "missing or half made: the node's link to the others",
			Lines: []string{fmt.Sprintf("+ ip -n %s link add %s mtu %d master %s type veth peer %s netns %s", wireSpace, name, b.u.cfg.MTU, wireBridge, podLink, m.Name)}},
			func(*kernel) error { return inOrder(b.u.addMember(path, name)) })
	}
	have.routes = b.strayAddrs(m, have)
	for _, a := range m.Addrs {
		p := netip.PrefixFrom(a, lan(a).Bits())
		if !slices.Contains(have.addrs, p) {
			b.inside(m, dataplane.Change{Op: dataplane.Add, Object: fmt.Sprintf("address %s in %s", a, m.Name), Reason: "missing: status.addresses of the Node",
				Lines: []string{fmt.Sprintf("+ ip -n %s addr add %s dev %s", m.Name, p, podLink)}},
				func(k *kernel) error { return k.addAddr(podLink, p) })
		}
	}
	b.routes(m, have)
}

// strayAddrs takes away addresses that the node has no more, and returns the
// routes that are left then: the last IPv4 address takes all along. It comes
// first, because the first address of a range takes the others along.
func (b *wireBuilder) strayAddrs(m Member, have podFacts) []route {
	left := have.routes
	for _, p := range have.addrs {
		if slices.Contains(m.Addrs, p.Addr()) || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		b.inside(m, dataplane.Change{Op: dataplane.Remove, Object: fmt.Sprintf("address %s in %s", p.Addr(), m.Name), Reason: "not in status.addresses of the Node",
			Lines: []string{fmt.Sprintf("- ip -n %s addr del %s dev %s", m.Name, p, podLink)}},
			func(k *kernel) error { return k.delAddr(podLink, p) })
		left = slices.DeleteFunc(slices.Clone(left), func(r route) bool { return r.dst.Addr().Is4() && p.Addr().Is4() && r.link == have.eth.index })
	}
	return left
}

// routes adds the routes that are missing, and takes away those of ours that no
// node needs any more.
func (b *wireBuilder) routes(m Member, have podFacts) {
	want := b.u.wayTo(m)
	same := func(a route) func(route) bool {
		return func(r route) bool { return r.dst == a.dst && r.gateway == a.gateway }
	}
	for _, r := range have.routes {
		if r.link != have.eth.index || have.eth.index == 0 || r.protocol != routeProtocol || slices.ContainsFunc(want, same(r)) {
			continue
		}
		b.inside(m, dataplane.Change{Op: dataplane.Remove, Object: fmt.Sprintf("route to %s in %s", r.dst, m.Name), Reason: "leads to no Node any more",
			Lines: []string{fmt.Sprintf("- ip -n %s route del %s", m.Name, r.dst)}},
			func(k *kernel) error { return k.delRoute(podLink, r.dst, r.gateway) })
	}
	for _, r := range want {
		i := slices.IndexFunc(have.routes, same(r))
		if i >= 0 && have.routes[i].link == have.eth.index {
			continue
		}
		by := ""
		if r.gateway.IsValid() {
			by = " via " + r.gateway.String()
		}
		b.inside(m, dataplane.Change{Op: dataplane.Add, Object: fmt.Sprintf("route to %s in %s", r.dst, m.Name), Reason: "missing: the way to other nodes, and out",
			Lines: []string{fmt.Sprintf("+ ip -n %s route add %s%s dev %s onlink", m.Name, r.dst, by, podLink)}},
			func(k *kernel) error { return k.addRoute(podLink, r.dst, r.gateway) })
	}
}

// inside adds a change in a node's namespace.
func (b *wireBuilder) inside(m Member, c dataplane.Change, do func(*kernel) error) {
	path := b.u.node.Path(m.Name)
	b.add(c, func(*kernel) error { return within(path, do) })
}

// remove takes a namespace of ours away. The link goes first, as a process that
// is still inside keeps the namespace, and so would keep the link.
func (b *wireBuilder) remove(name, reason string) {
	if !b.facts.owns(name) {
		return
	}
	path, port := b.u.node.Path(name), hostLink("node/"+name, 0)
	if _, ok := b.facts.ports[port]; ok && name != wireSpace {
		b.add(dataplane.Change{Op: dataplane.Remove, Object: "link " + port + " in " + wireSpace, Reason: reason, Lines: []string{"- ip -n " + wireSpace + " link del " + port}},
			func(*kernel) error {
				return within(b.u.node.Path(wireSpace), func(k *kernel) error { return k.delLink(port) })
			})
	}
	b.add(dataplane.Change{Op: dataplane.Remove, Object: "network namespace " + name, Reason: reason, Lines: []string{"- ip netns del " + name}},
		func(*kernel) error { return removeNamespace(path) })
}
