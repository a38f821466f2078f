package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// The actions are the kinds of change that steps consist of. Each succeeds when
// the kernel already is as it ought to be. Those that are one request to the
// kernel are made many at a time, see request.

// makeSet creates an empty set.
type makeSet struct {
	id       setID
	capacity uint32
}

func (a makeSet) do(_ context.Context, k *kernel) error {
	return k.createSet(a.id.String(), a.id, a.capacity)
}

// enlargeSet puts a larger set with the same entries in the place of one. The
// rules see the old set or the new one.
type enlargeSet struct {
	id       setID
	capacity uint32
	entries  []entry
}

func (a enlargeSet) do(ctx context.Context, k *kernel) error { return k.enlargeSet(ctx, a) }

// destroySet removes a set.
type destroySet struct{ name string }

func (a destroySet) do(_ context.Context, k *kernel) error { return k.destroySet(a.name) }

// refuse changes nothing: it is an error that is told when all else is done.
type refuse struct{ reason string }

func (a refuse) do(context.Context, *kernel) error { return errors.New(a.reason) }

// request is an action that is one message to the kernel.
type request interface {
	action
	// lane tells with what it may go in one call.
	lane() lane
	encode(*kernel, *encoder)
	// refused says what the refusal means: nothing (nil, nil), because the kernel
	// is as it ought to be; that another request is to be made instead, because
	// the kernel is not as the plan had it; or an error.
	refused(syscall.Errno) (request, error)
}

// lane is what requests that go in one call have in common. Within a call a
// request is made even if one before it is refused, and so nothing is taken away
// in the same call in which something else has to come first.
type lane struct {
	// protocol is that of the socket: unix.NETLINK_GENERIC.
	protocol int
	takes    bool
}

// setEntry adds or deletes one entry.
type setEntry struct {
	id    setID
	entry entry
	add   bool
}

func (a setEntry) do(ctx context.Context, k *kernel) error { return k.request(ctx, a) }
func (a setEntry) lane() lane                              { return lane{unix.NETLINK_NETFILTER, !a.add} }
func (a setEntry) encode(_ *kernel, e *encoder) {
	command := uint16(nl.IPSET_CMD_ADD)
	if !a.add {
		command = nl.IPSET_CMD_DEL
	}
	e.entry(command, a.id.String(), a.entry)
}

func (a setEntry) refused(errno syscall.Errno) (request, error) {
	verb := "add"
	if !a.add {
		verb = "del"
	}
	return nil, fmt.Errorf("ipset %s %s %s: %w", verb, a.id, a.entry, setError(errno))
}

// spareEntry adds one entry to the spare set.
type spareEntry struct {
	id    setID
	entry entry
}

func (a spareEntry) do(ctx context.Context, k *kernel) error { return k.request(ctx, a) }
func (a spareEntry) lane() lane                              { return lane{unix.NETLINK_NETFILTER, false} }
func (a spareEntry) encode(_ *kernel, e *encoder) {
	e.entry(nl.IPSET_CMD_ADD, a.id.spare(), a.entry)
}

func (a spareEntry) refused(errno syscall.Errno) (request, error) {
	return nil, fmt.Errorf("ipset add %s %s: %w", a.id.spare(), a.entry, setError(errno))
}

// raiseRoute makes an address local, or corrects the route that does.
type raiseRoute struct {
	addr   netip.Addr
	exists bool
	// table is the number of the routing table; zero means that of local
	// addresses. There the route names the source that local clients have.
	table uint32
	// outward: the route names the source that local clients have by the routes of
	// others.
	outward bool
}

func (a raiseRoute) do(ctx context.Context, k *kernel) error { return k.request(ctx, a) }
func (a raiseRoute) lane() lane                              { return lane{unix.NETLINK_ROUTE, false} }
func (a raiseRoute) encode(k *kernel, e *encoder) {
	flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL)
	if a.exists {
		flags = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	}
	r := localRoute{addr: a.addr, link: k.loop, table: a.table}
	switch {
	case a.table == 0:
		r.source = k.source(dataplane.FamilyOf(a.addr))
	case a.outward:
		r.source = k.sourceTo(a.addr)
	}
	e.route(unix.RTM_NEWROUTE, flags, r)
}

func (a raiseRoute) refused(errno syscall.Errno) (request, error) {
	switch errno {
	case unix.EEXIST:
		return nil, nil
	case unix.ENETDOWN:
		return nil, fmt.Errorf("local route %s: link lo is down; set it up (ip link set lo up): %w", a.addr, errno)
	}
	return nil, fmt.Errorf("local route %s: %w", a.addr, errno)
}

// dropRoute makes it no longer local.
type dropRoute struct {
	addr     netip.Addr
	priority uint32
	table    uint32
}

func (a dropRoute) do(ctx context.Context, k *kernel) error { return k.request(ctx, a) }
func (a dropRoute) lane() lane                              { return lane{unix.NETLINK_ROUTE, true} }
func (a dropRoute) encode(_ *kernel, e *encoder) {
	e.route(unix.RTM_DELROUTE, 0, localRoute{addr: a.addr, priority: a.priority, table: a.table})
}

func (a dropRoute) refused(errno syscall.Errno) (request, error) {
	return nil, gone("local route "+a.addr.String(), errno)
}

// gone makes success of the deletion of what is not there.
func gone(object string, errno syscall.Errno) error {
	if errno == unix.ESRCH || errno == unix.ENOENT {
		return nil
	}
	return fmt.Errorf("deletion of %s: %w", object, errno)
}

// putServer adds a virtual server, or edits the one that exists.
type putServer struct {
	server *virtualServer
	exists bool
}

func (a putServer) do(ctx context.Context, k *kernel) error { return k.request(ctx, a) }
func (a putServer) lane() lane                              { return lane{unix.NETLINK_GENERIC, false} }
func (a putServer) encode(k *kernel, e *encoder) {
	command := byte(newServiceCommand)
	if a.exists {
		command = setServiceCommand
	}
	e.server(k.family, command, *a.server)
}

func (a putServer) refused(errno syscall.Errno) (request, error) {
	switch {
	case errno == unix.EEXIST && !a.exists, errno == unix.ESRCH && a.exists:
		return putServer{a.server, !a.exists}, nil
	case errno == unix.ENOENT:
		return nil, fmt.Errorf("%s: %w", a.server.object(), &dataplane.Unsupported{
			Feature: "IPVS scheduler " + a.server.scheduler, Missing: "module ip_vs_" + a.server.scheduler,
			Mend: "load the module, or name another scheduler",
		})
	}
	return nil, fmt.Errorf("%s: %w", a.server.object(), errno)
}

// dropServer deletes a virtual server with all its real servers.
type dropServer struct{ server virtualServer }

func (a dropServer) do(ctx context.Context, k *kernel) error { return k.request(ctx, a) }
func (a dropServer) lane() lane                              { return lane{unix.NETLINK_GENERIC, true} }
func (a dropServer) encode(k *kernel, e *encoder)            { e.server(k.family, delServiceCommand, a.server) }
func (a dropServer) refused(errno syscall.Errno) (request, error) {
	return nil, gone(a.server.object(), errno)
}

// putReal adds a real server, or edits the one that exists.
type putReal struct {
	server *virtualServer
	real   realServer
	exists bool
}

func (a putReal) do(ctx context.Context, k *kernel) error { return k.request(ctx, a) }
func (a putReal) lane() lane {
	// Weight 0 is as good as a deletion.
	return lane{unix.NETLINK_GENERIC, a.real.weight == 0}
}
func (a putReal) encode(k *kernel, e *encoder) {
	command := byte(newDestCommand)
	if a.exists {
		command = setDestCommand
	}
	e.real(k.family, command, *a.server, a.real)
}

func (a putReal) refused(errno syscall.Errno) (request, error) {
	switch {
	case errno == unix.EEXIST && !a.exists, errno == unix.ENOENT && a.exists:
		return putReal{a.server, a.real, !a.exists}, nil
	case errno == unix.ESRCH:
		return nil, fmt.Errorf("%s: %w", a.real.object(*a.server), errNoServer)
	case errno == unix.EINVAL:
		return nil, fmt.Errorf("%s of %s: %w", a.real.object(*a.server), a.server.service, errNoPlace)
	}
	return nil, fmt.Errorf("%s: %w", a.real.object(*a.server), errno)
}

// errNoPlace says that the kernel sends nothing to such an address. It is the
// fault of that endpoint alone: nothing else relies on it.
var errNoPlace = errors.New("the kernel sends nothing there: it is a broadcast or multicast address of this node's networks; give the endpoint another address")

// errNoServer says that a real server has no virtual server to belong to.
var errNoServer = errors.New("its virtual server is missing")

// dropReal deletes a real server.
type dropReal struct {
	server virtualServer
	real   realServer
}

func (a dropReal) do(ctx context.Context, k *kernel) error { return k.request(ctx, a) }
func (a dropReal) lane() lane                              { return lane{unix.NETLINK_GENERIC, true} }
func (a dropReal) encode(k *kernel, e *encoder) {
	e.real(k.family, delDestCommand, a.server, a.real)
}

func (a dropReal) refused(errno syscall.Errno) (request, error) {
	return nil, gone(a.real.object(a.server), errno)
}
