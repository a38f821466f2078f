package ipvs

import (
	"context"
	"errors"
	"net/netip"
)

// The actions are the kinds of change that steps consist of. Each succeeds when
// the kernel already is as it ought to be.

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

// setEntry adds or deletes one entry.
type setEntry struct {
	id    setID
	entry entry
	add   bool
}

func (a setEntry) do(_ context.Context, k *kernel) error {
	return k.changeEntry(a.id.String(), a.entry, a.add)
}

// raiseRoute makes an address local, or corrects the route that does.
type raiseRoute struct {
	addr   netip.Addr
	exists bool
}

func (a raiseRoute) do(_ context.Context, k *kernel) error { return k.raiseRoute(a.addr, a.exists) }

// dropRoute makes it no longer local.
type dropRoute struct {
	addr     netip.Addr
	priority int
}

func (a dropRoute) do(_ context.Context, k *kernel) error { return k.dropRoute(a.addr, a.priority) }

// putServer adds a virtual server, or edits the one that exists.
type putServer struct {
	server virtualServer
	exists bool
}

func (a putServer) do(ctx context.Context, k *kernel) error { return k.putServer(ctx, a) }

// dropServer deletes a virtual server with all its real servers.
type dropServer struct{ server virtualServer }

func (a dropServer) do(ctx context.Context, k *kernel) error { return k.dropServer(ctx, a.server) }

// putReal adds a real server, or edits the one that exists.
type putReal struct {
	server virtualServer
	real   realServer
	exists bool
}

func (a putReal) do(ctx context.Context, k *kernel) error { return k.putReal(ctx, a) }

// dropReal deletes a real server.
type dropReal struct {
	server virtualServer
	real   realServer
}

func (a dropReal) do(ctx context.Context, k *kernel) error { return k.dropReal(ctx, a) }

// refuse changes nothing: it is an error that is told when all else is done.
type refuse struct{ reason string }

func (a refuse) do(context.Context, *kernel) error { return errors.New(a.reason) }
