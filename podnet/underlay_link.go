package podnet

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A link to the bridge takes several calls, and between any two of them the
// process may be killed. The moves below are in an order in which the next pass
// knows what was left: whatever is not marked yet stands in a namespace of ours,
// and what is not done yet is not up, or no port of the bridge.

// inOrder makes moves until one fails.
func inOrder(moves []func() error) error {
	for _, move := range moves {
		if err := move(); err != nil {
			return err
		}
	}
	return nil
}

// addUplink are the moves that make this machine's link to the bridge anew. Both
// ends are born in the wire's namespace, where all is ours, and this machine gets
// its end only when that has its mark.
func (u *Underlay) addUplink(k *kernel) []func() error {
	path, name := u.node.Path(wireSpace), u.cfg.Uplink
	inWire := func(do func(*kernel) error) func() error { return func() error { return within(path, do) } }
	return []func() error{
		func() error { return k.delLink(name) },
		inWire(func(w *kernel) error { return w.delLink(podLink) }),
		inWire(func(w *kernel) error {
			_, err := w.makePair(pair{host: name, namespace: path, mtu: u.cfg.MTU}, 0)
			return err
		}),
		inWire(func(w *kernel) error { return w.setAlias(name, underlayMark) }),
		func() error { return fetchLink(path, name) },
		func() error { return setLinkSysctls(name) }, // moved links get those of their new namespace
		inWire(func(w *kernel) error { return w.enslave(podLink, wireBridge) }),
		func() error { return k.setLink(name, u.cfg.MTU) },
	}
}

// addMember are the moves that make a node's link to the bridge anew. Neither end
// is ever outside of the namespaces of the wire and of the node.
func (u *Underlay) addMember(path, name string) []func() error {
	inWire := func(do func(*kernel) error) func() error {
		return func() error { return within(u.node.Path(wireSpace), do) }
	}
	return []func() error{
		func() error { return within(path, func(k *kernel) error { return k.delLink(podLink) }) },
		inWire(func(w *kernel) error { return w.delLink(name) }),
		inWire(func(w *kernel) error {
			_, err := w.makePair(pair{host: name, namespace: path, mtu: u.cfg.MTU}, 0)
			return err
		}),
		inWire(func(w *kernel) error { return w.setAlias(name, underlayMark) }),
		inWire(func(w *kernel) error { return w.enslave(name, wireBridge) }),
		func() error { return within(path, func(k *kernel) error { return k.setLink(podLink, u.cfg.MTU) }) },
	}
}

// fetchLink moves a link out of the namespace with that file into the one of the
// calling thread.
func fetchLink(path, name string) error {
	here, err := os.Open(threadNetns)
	if err != nil {
		return fmt.Errorf("network namespace of the thread: %w", err)
	}
	defer here.Close()
	return within(path, func(k *kernel) error {
		l, err := k.h.LinkByName(name)
		if err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
		err = k.h.LinkSetNsFd(l, int(here.Fd()))
		if errors.Is(err, unix.EEXIST) {
			err = fmt.Errorf("somebody else has made one meanwhile: plan again: %w", err)
		}
		return wrap(err, "move of link "+name+" to this machine")
	})
}
