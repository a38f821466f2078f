package iptables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// layout is what the rules that Services share are made from, of one family: which
// keys are in the trees, and how often. It changes with the table, by as much as
// the table does.
type layout struct {
	family dataplane.Family
	// node holds the facts of the family.
	node dataplane.Node
	with means
	// at holds the frontends of each address, by its digits, sorted. Node
	// addresses are in it too as long as there are NodePorts, with what frontends
	// they have besides. keys are its keys, sorted.
	at   map[string][]dataplane.Frontend
	keys []string
	// nodePorts are the frontends that have no address of their own, sorted.
	nodePorts []dataplane.Frontend
	// locals are the addresses of endpoints that live here.
	locals tally
	// outer counts the frontends that cannot be known by the Service ranges.
	outer int
}

// tally counts keys, and knows them in order.
type tally struct {
	count  map[string]int
	sorted []string
}

// newLayout lays out a table of one family.
func newLayout(t dataplane.Table, f dataplane.Family, with means) *layout {
	l := &layout{family: f, node: t.Node, with: with, at: map[string][]dataplane.Frontend{}, locals: tally{count: map[string]int{}}}
	for _, fe := range t.Frontends {
		l.countOuter(fe, 1)
		if fe.Kind == dataplane.NodePort {
			l.nodePorts = append(l.nodePorts, fe)
			continue
		}
		key := digits(fe.Addr)
		l.at[key] = append(l.at[key], fe)
	}
	if len(l.nodePorts) > 0 {
		for _, key := range l.nodeKeys() {
			l.at[key] = append(l.at[key], nil...)
		}
	}
	for k := range l.at {
		l.keys = append(l.keys, k)
	}
	slices.Sort(l.keys)
	for _, key := range localKeys(t.Sets) {
		l.locals.count[key]++
	}
	for k := range l.locals.count {
		l.locals.sorted = append(l.locals.sorted, k)
	}
	slices.Sort(l.locals.sorted)
	return l
}

// empty reports whether the family has nothing to do.
func (l *layout) empty() bool {
	return len(l.keys) == 0 && len(l.nodePorts) == 0 && len(l.node.ServiceRanges) == 0
}

// nodeKeys are the addresses of the node, as digits.
func (l *layout) nodeKeys() []string {
	var out []string
	for _, a := range l.node.Addrs {
		out = append(out, digits(a))
	}
	return out
}

func (l *layout) countOuter(fe dataplane.Frontend, by int) {
	if outer(fe, l.node) {
		l.outer += by
	}
}

// localKeys are the addresses of all endpoints that live here, as digits; an
// address as often as it occurs.
func localKeys(sets []dataplane.EndpointSet) []string {
	var out []string
	for _, s := range sets {
		for _, e := range s.Endpoints {
			if e.Local {
				out = append(out, digits(e.Addr.Addr()))
			}
		}
	}
	return out
}

// partial says which parts of a tree to build: those on the way to some keys, and
// those that are not there yet. A nil partial builds all.
type partial struct {
	// touched are the keys.
	touched []string
	// known holds the chains of the trees that are there.
	known map[string][]string
}

// skips reports whether the chain of a part of the tree stays as it is.
func (p *partial) skips(prefix, chain string) bool {
	if p == nil {
		return false
	}
	_, there := p.known[chain]
	return there && !slices.ContainsFunc(p.touched, func(k string) bool { return strings.HasPrefix(k, prefix) })
}

// touch collects what a change touches: keys of the tree over addresses, of that
// over NodePorts, and of that over the endpoints that live here.
type touch struct{ addresses, ports, locals []string }

// move turns the layout of a table into that after a change, of the same family.
// It fails when what the change begins with is not there.
func (l *layout) move(before, after dataplane.Table) (touch, error) {
	var t touch
	served := len(l.nodePorts) > 0
	for _, fe := range before.Frontends {
		if kept(fe, after) {
			continue
		}
		if err := l.take(fe, &t); err != nil {
			return t, err
		}
	}
	for _, fe := range after.Frontends {
		if !kept(fe, before) {
			l.put(fe, &t)
		}
	}
	l.settleNodeAddrs(served, &t)
	return t, l.moveLocals(localKeys(before.Sets), localKeys(after.Sets), &t)
}

// kept reports whether a table has a frontend at the same place.
func kept(fe dataplane.Frontend, t dataplane.Table) bool {
	other, ok := t.Frontend(fe.Key)
	return ok && (other.Kind == dataplane.NodePort) == (fe.Kind == dataplane.NodePort)
}

// byKey orders frontends as tables do.
func byKey(a, b dataplane.Frontend) int { return a.Key.Compare(b.Key) }

// take takes a frontend out.
func (l *layout) take(fe dataplane.Frontend, t *touch) error {
	key, list := digits(fe.Addr), l.nodePorts
	if fe.Kind != dataplane.NodePort {
		list = l.at[key]
	}
	i, found := slices.BinarySearchFunc(list, fe, byKey)
	if !found {
		return fmt.Errorf("frontend %s that changes is not known", fe.Key)
	}
	list = slices.Delete(list, i, i+1)
	l.countOuter(fe, -1)
	if fe.Kind == dataplane.NodePort {
		l.nodePorts = list
		t.ports = append(t.ports, portKey(fe.Protocol, fe.Port))
		return nil
	}
	l.at[key] = list
	t.addresses = append(t.addresses, key)
	if len(list) == 0 {
		l.close(key)
	}
	return nil
}

// put puts a frontend in.
func (l *layout) put(fe dataplane.Frontend, t *touch) {
	l.countOuter(fe, 1)
	if fe.Kind == dataplane.NodePort {
		i, _ := slices.BinarySearchFunc(l.nodePorts, fe, byKey)
		l.nodePorts = slices.Insert(l.nodePorts, i, fe)
		t.ports = append(t.ports, portKey(fe.Protocol, fe.Port))
		return
	}
	key := digits(fe.Addr)
	l.open(key)
	i, _ := slices.BinarySearchFunc(l.at[key], fe, byKey)
	l.at[key] = slices.Insert(l.at[key], i, fe)
	t.addresses = append(t.addresses, key)
}

// open makes an address part of the tree, close takes it out.
func (l *layout) open(key string) {
	if _, there := l.at[key]; !there {
		l.at[key] = nil
		l.keys = inserted(l.keys, key)
	}
}

func (l *layout) close(key string) {
	delete(l.at, key)
	l.keys = without(l.keys, key)
}

// settleNodeAddrs makes the node's addresses part of the tree as long as there
// are NodePorts. served says whether there were any before.
func (l *layout) settleNodeAddrs(served bool, t *touch) {
	serves := len(l.nodePorts) > 0
	for _, key := range l.nodeKeys() {
		if serves {
			l.open(key)
		} else if len(l.at[key]) == 0 {
			l.close(key)
		}
		if serves != served {
			t.addresses = append(t.addresses, key)
		}
	}
}

// moveLocals changes the addresses of endpoints that live here.
func (l *layout) moveLocals(before, after []string, t *touch) error {
	changes := map[string]int{}
	for _, key := range before {
		changes[key]--
	}
	for _, key := range after {
		changes[key]++
	}
	for key, by := range changes {
		was := l.locals.count[key]
		is := was + by
		switch {
		case is < 0:
			return fmt.Errorf("an endpoint that leaves this node is not known")
		case was == 0 && is > 0:
			l.locals.sorted = inserted(l.locals.sorted, key)
			t.locals = append(t.locals, key)
		case was > 0 && is == 0:
			l.locals.sorted = without(l.locals.sorted, key)
			t.locals = append(t.locals, key)
		}
		l.locals.count[key] = is
		if is == 0 {
			delete(l.locals.count, key)
		}
	}
	return nil
}

// inserted puts a key into its place among sorted ones, without takes it out.
func inserted(keys []string, key string) []string {
	i, _ := slices.BinarySearch(keys, key)
	return slices.Insert(keys, i, key)
}

func without(keys []string, key string) []string {
	if i, found := slices.BinarySearch(keys, key); found {
		return slices.Delete(keys, i, i+1)
	}
	return keys
}
