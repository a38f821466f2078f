package nftables

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// fake is a kernel that knows transactions as bytes: it refuses what the real
// one refuses, and holds what it was told.
type fake struct {
	family dataplane.Family
	state
	// elements of each set, by key and end.
	held map[string]map[string]element
}

func newFake(f dataplane.Family) *fake {
	return &fake{family: f, state: state{sets: map[string]setState{}, chains: map[string]chainState{}},
		held: map[string]map[string]element{}}
}

// read returns what the fake holds, as a dump of the kernel tells it.
func (k *fake) read() state {
	out := k.state
	out.sets = map[string]setState{}
	for name, s := range k.sets {
		s.empty(k.family)
		for _, e := range k.held[name] {
			s.take(found{[]byte(e.key), []byte(e.end), []byte(e.to), []byte(e.comment)})
		}
		out.sets[name] = s
	}
	return out
}

// apply makes changes, each a transaction of its own, and calls between after
// each.
func (k *fake) apply(d delta, between func()) error {
	st := d.stages()
	for _, o := range slices.Concat(st.grow, st.leave, st.clean) {
		b := newBatch(k.family)
		if err := o(b); err != nil {
			return err
		}
		err := messages(b.raw, func(kind, _ uint16, body []byte) error { return k.message(kind&0xff, body[4:]) })
		if err != nil {
			return err
		}
		between()
	}
	return nil
}

func (k *fake) message(kind uint16, b []byte) error {
	name := nameIn(b, 2)
	switch kind {
	case unix.NFT_MSG_NEWTABLE:
		k.readTable(b)
	case unix.NFT_MSG_DELTABLE:
		k.state, k.held = newFake(k.family).state, map[string]map[string]element{}
	case unix.NFT_MSG_NEWSET:
		k.readSet(b)
		k.held[name] = map[string]element{}
	case unix.NFT_MSG_DELSET:
		return k.deleteSet(name)
	case unix.NFT_MSG_NEWCHAIN:
		k.readChain(b)
	case unix.NFT_MSG_DELCHAIN:
		return k.deleteChain(nameIn(b, unix.NFTA_CHAIN_NAME))
	case unix.NFT_MSG_NEWRULE:
		k.readRule(k.family, b)
	case unix.NFT_MSG_DELRULE:
		c := k.chains[name]
		c.rules = nil
		k.chains[name] = c
	case unix.NFT_MSG_NEWSETELEM, unix.NFT_MSG_DELSETELEM:
		return k.elements(name, b, kind == unix.NFT_MSG_DELSETELEM)
	}
	return nil
}

func nameIn(b []byte, at uint16) (name string) {
	attributes(b, func(kind uint16, data []byte) {
		if kind == at {
			name = cText(data)
		}
	})
	return name
}

// named reports whether a rule names a chain or set.
func (k *fake) named(name string) bool {
	for _, c := range k.chains {
		for _, r := range c.rules {
			if strings.Contains(r, "\x00"+name+"\x00") {
				return true
			}
		}
	}
	return false
}

func (k *fake) deleteSet(name string) error {
	if _, ok := k.sets[name]; !ok || k.named(name) {
		return fmt.Errorf("set %s: not there, or in use", name)
	}
	delete(k.sets, name)
	delete(k.held, name)
	return nil
}

func (k *fake) deleteChain(name string) error {
	used := k.named(name)
	for _, elements := range k.held {
		for _, e := range elements {
			used = used || e.to == name
		}
	}
	if c, ok := k.chains[name]; !ok || used || len(c.rules) > 0 {
		return fmt.Errorf("chain %s: not there, or in use", name)
	}
	delete(k.chains, name)
	return nil
}

func (k *fake) elements(name string, b []byte, deletes bool) error {
	s, ok := k.held[name]
	if !ok {
		return fmt.Errorf("set %s: not there", name)
	}
	var told []element
	eachElement(b, func(e found) { told = append(told, e.element()) })
	toChain := k.sets[name].shape.dataType == typeVerdict
	for _, e := range told {
		key := e.key + e.end
		was, exists := s[key]
		switch {
		case deletes && !exists:
			return fmt.Errorf("set %s: no such element", name)
		case deletes:
			delete(s, key)
		case exists && was != e:
			return fmt.Errorf("set %s: element exists", name)
		default:
			if _, ok := k.chains[e.to]; toChain && !ok {
				return fmt.Errorf("map %s: no chain %s", name, e.to)
			}
			s[key] = e
		}
	}
	return nil
}
