package ipset

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

const (
	// callLimit bounds each call to the kernel, so that a hang becomes an error.
	callLimit = 20 * time.Second
	// busyLimit is how long the removal of a set waits until no rule names it:
	// nf_tables frees removed rules some time after it has reported them gone.
	busyLimit = 2 * time.Second
	// busyPause is the time between two trials.
	busyPause = 2 * time.Millisecond
)

// kernel is a socket in the network namespace of the thread that opened it.
type kernel struct{ sockets map[int]*nl.SocketHandle }

func open() (kernel, error) {
	s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return kernel{}, fmt.Errorf("netfilter socket: %w", err)
	}
	wait := unix.NsecToTimeval(callLimit.Nanoseconds())
	if err := s.SetReceiveTimeout(&wait); err != nil {
		s.Close()
		return kernel{}, fmt.Errorf("netfilter socket: %w", err)
	}
	return kernel{map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: s}}}, nil
}

func (k kernel) close() { k.sockets[unix.NETLINK_NETFILTER].Close() }

// call sends a request and returns the answers.
func (k kernel) call(r *nl.NetlinkRequest) ([][]byte, error) {
	r.Sockets = k.sockets
	messages, err := r.Execute(unix.NETLINK_NETFILTER, 0)
	var number syscall.Errno
	if errors.As(err, &number) && number >= nl.IPSET_ERR_PRIVATE {
		return nil, nl.IPSetError(number)
	}
	return messages, err
}

// readHeaders lists all sets of the namespace.
func readHeaders() ([]held, error) {
	k, err := open()
	if err != nil {
		return nil, err
	}
	defer k.close()
	messages, err := k.call(headersRequest())
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ENOENT) {
		return nil, nil // this part of netfilter is not in the kernel
	}
	if err != nil {
		return nil, fmt.Errorf("list of ipsets: %w", err)
	}
	out := make([]held, 0, len(messages))
	for _, m := range messages {
		h, err := decodeHeader(m)
		if err != nil {
			return nil, fmt.Errorf("list of ipsets: %w", err)
		}
		if h.name != "" {
			out = append(out, h)
		}
	}
	return out, nil
}

func (k kernel) create(s Set) error {
	_, err := k.call(createRequest(s))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, nl.IPSetError(nl.IPSET_ERR_FIND_TYPE)) {
		return &dataplane.Unsupported{Feature: "ipset", Missing: "type " + setType + " (module ip_set_hash_ip)",
			Mend: "load the module, or boot a kernel that has it"}
	}
	if err != nil {
		return fmt.Errorf("ipset create %s: %w", s.Name, err)
	}
	return nil
}

// renew puts a set of another timeout in the place of one, with the same clients
// as long as they are to be remembered. Rules that name the set see the new one.
func (k kernel) renew(s Set) error {
	spare := s.spare()
	// One may be left from a pass that was cut short.
	if err := k.remove(spare.Name); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("ipset destroy %s: %w", spare.Name, err)
	}
	if err := k.create(spare); err != nil {
		return err
	}
	if err := k.carry(s, spare); err != nil {
		return err
	}
	if _, err := k.call(swapRequest(spare.Name, s.Name)); err != nil {
		err = fmt.Errorf("ipset swap %s %s: %w", spare.Name, s.Name, err)
		return errors.Join(err, k.remove(spare.Name))
	}
	if err := k.remove(spare.Name); err != nil {
		return fmt.Errorf("ipset destroy %s: %w", spare.Name, err)
	}
	return nil
}

// carry fills the spare with the clients that the set still has to remember.
func (k kernel) carry(s, spare Set) error {
	messages, err := k.call(request(nl.IPSET_CMD_LIST, s.Name))
	if err != nil {
		return fmt.Errorf("ipset list %s: %w", s.Name, err)
	}
	var was held
	for _, m := range messages {
		clients, err := decodeClients(m)
		h, failed := decodeHeader(m)
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("ipset list %s: %w", s.Name, err)
		}
		if h.typeName != "" {
			was = h
		}
		if !was.fits(s) {
			return nil // the swap will be refused
		}
		for _, c := range carried(clients, was.seconds, s.seconds()) {
			if _, err := k.call(addRequest(spare.Name, c)); err != nil {
				return fmt.Errorf("ipset add %s %s: %w", spare.Name, c.addr, err)
			}
		}
	}
	return nil
}

func (k kernel) remove(name string) error {
	_, err := k.call(request(nl.IPSET_CMD_DESTROY, name))
	return err
}

// destroy removes a set. It waits for rules that are on their way out.
func (k kernel) destroy(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, busyLimit)
	defer cancel()
	for {
		err := k.remove(name)
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, nl.IPSetError(nl.IPSET_ERR_BUSY)):
			return fmt.Errorf("ipset destroy %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ipset destroy %s: %w: a rule that is not ours names the set (iptables-save | grep %s); delete it", name, err, name)
		case <-time.After(busyPause):
		}
	}
}

// Probe tries whether a set can be made in the network namespace of the calling
// thread, and leaves it there when it can.
func Probe(s Set) error {
	k, err := open()
	if err != nil {
		return err
	}
	defer k.close()
	return k.create(s)
}
