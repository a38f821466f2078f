package nftables

import (
	"fmt"
	"maps"
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
}

func newFake(f dataplane.Family) *fake {
	return &fake{family: f, state: state{sets: map[string]setState{}, chains: map[string]chainState{}}}
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
		k.state = newFake(k.family).state
	case unix.NFT_MSG_NEWSET:
		k.readSet(b)
		s := k.sets[name]
		s.elements = map[string]element{}
		k.sets[name] = s
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
	return nil
}

func (k *fake) deleteChain(name string) error {
	used := k.named(name)
	for _, s := range k.sets {
		for e := range maps.Values(s.elements) {
			used = used || e.chain == name
		}
	}
	if c, ok := k.chains[name]; !ok || used || len(c.rules) > 0 {
		return fmt.Errorf("chain %s: not there, or in use", name)
	}
	delete(k.chains, name)
	return nil
}

func (k *fake) elements(name string, b []byte, deletes bool) error {
	s, ok := k.sets[name]
	if !ok {
		return fmt.Errorf("set %s: not there", name)
	}
	told := setState{elements: map[string]element{}}
	told.readElements(b)
	for key, e := range told.elements {
		was, exists := s.elements[key]
		switch {
		case deletes && !exists:
			return fmt.Errorf("set %s: no such element", name)
		case deletes:
			delete(s.elements, key)
		case exists && was != e:
			return fmt.Errorf("set %s: element exists", name)
		default:
			if _, ok := k.chains[e.chain]; e.chain != "" && !ok {
				return fmt.Errorf("map %s: no chain %s", name, e.chain)
			}
			s.elements[key] = e
		}
	}
	return nil
}
