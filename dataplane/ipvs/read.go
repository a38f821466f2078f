package ipvs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// read returns what the kernel holds of a family. Real servers are read of
// virtual servers that are ours or wanted, no others.
func (k *kernel) read(ctx context.Context, want target) (observed, error) {
	o := observed{family: want.family, source: k.source(want.family)}
	if err := k.readOwnership(ctx, &o); err != nil {
		return o, err
	}
	if err := k.readLacks(ctx, &o, want); err != nil {
		return o, err
	}
	return o, k.readServers(ctx, &o, want)
}

// readOwnership reads what tells which virtual servers are ours, and the ways to
// them.
func (k *kernel) readOwnership(ctx context.Context, o *observed) error {
	if err := k.readSets(ctx, o); err != nil {
		return err
	}
	var err error
	if o.routes, o.local, err = k.localRoutes(ctx, o.family, unix.RT_TABLE_LOCAL); err != nil {
		return err
	}
	return k.readInbound(ctx, o)
}

// readSets reads those of our sets that are there: of many kinds there is none.
func (k *kernel) readSets(ctx context.Context, o *observed) error {
	there, err := k.setNames(ctx)
	if err != nil {
		return err
	}
	for kind := range setKinds {
		id := setID{kind, o.family}
		if there[id.String()] {
			if o.sets[kind], err = k.readSet(ctx, id.String()); err != nil {
				return err
			}
		}
		if there[id.spare()] {
			o.spares = append(o.spares, id.spare())
		}
	}
	return nil
}

// setNames returns the names of all sets.
func (k *kernel) setNames(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	err := k.list(ctx, unix.NETLINK_NETFILTER, (*encoder).listSets, func(body []byte) error {
		if len(body) < nl.SizeofNfgenmsg {
			return fmt.Errorf("message of %d bytes is too short", len(body))
		}
		return attributes(body[nl.SizeofNfgenmsg:], func(kind uint16, value []byte) {
			if kind == nl.IPSET_ATTR_SETNAME {
				names[nameOf(value)] = true
			}
		})
	})
	if err != nil {
		return nil, fmt.Errorf("ipset list -name: %w", err)
	}
	return names, nil
}

// readSet returns a set, or nil if there is none of that name.
func (k *kernel) readSet(ctx context.Context, name string) (*heldSet, error) {
	h := &heldSet{entries: map[entry]struct{}{}}
	err := k.list(ctx, unix.NETLINK_NETFILTER, func(e *encoder) { e.listSet(name) }, h.decodeMessage)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ipset list %s: %w", name, err)
	}
	return h, nil
}

// readLacks asks for the types of the sets that are wanted and not there.
func (k *kernel) readLacks(ctx context.Context, o *observed, want target) (err error) {
	for kind := range setKinds {
		if o.sets[kind] == nil && !kind.traits().always && len(want.sets[kind]) > 0 {
			if o.lacks[kind], err = k.lacksType(ctx, kind.Type(), o.family); err != nil {
				return err
			}
		}
	}
	return nil
}

// lacksType reports whether the kernel cannot make sets of a type. Asking makes it
// look for the module.
func (k *kernel) lacksType(ctx context.Context, name string, f dataplane.Family) (bool, error) {
	socket, err := k.socket(unix.NETLINK_NETFILTER)
	if err != nil {
		return false, err
	}
	err = socket.ask(ctx, unix.NLM_F_ACK, func(e *encoder) { e.setType(name, f) }, func([]byte) error { return nil })
	var errno syscall.Errno
	if errors.As(err, &errno) && errno >= nl.IPSET_ERR_PRIVATE {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("ipset type %s: %w", name, err)
	}
	return false, nil
}

// retryDump repeats a listing that the kernel interrupted because something
// changed meanwhile: half of the old and half of the new is neither.
func retryDump(list func() error) error {
	err := list()
	for range 10 {
		if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, errInterrupted) {
			break
		}
		err = list()
	}
	return err
}

func (k *kernel) readServers(ctx context.Context, o *observed, want target) error {
	wanted, marked := want.index(), o.marked()
	list, err := k.listServers(ctx, len(wanted))
	if err != nil {
		return err
	}
	o.servers = make(map[serverID]*virtualServer, len(list))
	var real []realServer
	for _, v := range list {
		if dataplane.FamilyOf(v.Addr) != o.family {
			continue
		}
		w := wanted[v.serverID]
		if w != nil || o.owns(v.serverID) {
			if real, err = k.readReal(ctx, v.serverID, real); err != nil {
				return err
			}
			v.real = real
			if w != nil && w.is(v) {
				// What is as it is wanted, as mostly all is, takes no room of its own.
				o.servers[v.serverID] = w
				continue
			}
			v.real = slices.Clone(real)
			v.placeMark(marked)
		}
		o.servers[v.serverID] = &v
	}
	return nil
}

// listServers returns all virtual servers of the namespace, without their real
// servers: about as many as are expected.
func (k *kernel) listServers(ctx context.Context, expected int) ([]virtualServer, error) {
	out := make([]virtualServer, 0, expected)
	err := k.eachServer(ctx, func() { out = out[:0] }, func(body []byte) error {
		v, err := decodeServer(body)
		out = append(out, v)
		return err
	})
	return out, err
}

// eachServer calls each with what the kernel tells of every virtual server of the
// namespace, but for its real servers; and begin before it, whenever it begins anew.
func (k *kernel) eachServer(ctx context.Context, begin func(), each func(body []byte) error) error {
	err := retryDump(func() error {
		begin()
		return k.list(ctx, unix.NETLINK_GENERIC, func(e *encoder) { e.listServers(k.family) }, each)
	})
	if err != nil {
		return fmt.Errorf("list of virtual servers: %w", err)
	}
	return nil
}

// readReal returns the real servers of a virtual server, in the place of those given.
func (k *kernel) readReal(ctx context.Context, of serverID, out []realServer) ([]realServer, error) {
	err := retryDump(func() error {
		out = out[:0]
		return k.list(ctx, unix.NETLINK_GENERIC, func(e *encoder) { e.listReal(k.family, of) }, func(body []byte) error {
			r, err := decodeReal(body, dataplane.FamilyOf(of.Addr))
			out = append(out, r)
			return err
		})
	})
	if errors.Is(err, unix.ESRCH) {
		return out[:0], nil // went since the list was made
	}
	if err != nil {
		return nil, fmt.Errorf("real servers of %s: %w", virtualServer{serverID: of}.object(), err)
	}
	return out, nil
}

// The listing of a set is decoded here and not by the library, which writes a
// line to standard error for each attribute that it does not know: two for every
// set that ipset(8) made, and sets made from a rendering are.

// decodeMessage reads a message of the answer. A large set fills many.
func (h *heldSet) decodeMessage(body []byte) error {
	if len(body) < nl.SizeofNfgenmsg {
		return fmt.Errorf("message of %d bytes is too short", len(body))
	}
	return eachAttribute(body[nl.SizeofNfgenmsg:], h.decode)
}

// eachAttribute calls f with the type and the value of each attribute, and stops
// at the first error.
func eachAttribute(b []byte, f func(typ int, value []byte) error) error {
	var first error
	err := attributes(b, func(kind uint16, value []byte) {
		if first == nil {
			first = f(int(kind), value)
		}
	})
	if first != nil {
		return first
	}
	return err
}

// nameOf reads a text that ends with a zero byte, or with the attribute.
func nameOf(value []byte) string {
	text, _, _ := bytes.Cut(value, []byte{0})
	return string(text)
}

func (h *heldSet) decode(typ int, value []byte) error {
	switch typ {
	case nl.IPSET_ATTR_TYPENAME:
		h.typeName = nameOf(value)
	case nl.IPSET_ATTR_DATA:
		return eachAttribute(value, func(typ int, v []byte) error {
			if typ == nl.IPSET_ATTR_MAXELEM && len(v) == 4 {
				h.capacity = binary.BigEndian.Uint32(v)
			}
			return nil
		})
	case nl.IPSET_ATTR_ADT:
		return eachAttribute(value, func(_ int, v []byte) error {
			var e entry
			if err := eachAttribute(v, e.decode); err != nil {
				return err
			}
			if int(e.bits) == e.source.BitLen() {
				e.bits = 0 // one address, told as a range
			}
			h.entries[e] = struct{}{}
			return nil
		})
	}
	return nil
}

func (e *entry) decode(typ int, value []byte) error {
	switch {
	case typ == nl.IPSET_ATTR_IP:
		return decodeAddr(value, &e.addr)
	case typ == nl.IPSET_ATTR_IP2:
		return decodeAddr(value, &e.source)
	case typ == nl.IPSET_ATTR_PORT && len(value) == 2:
		e.port = binary.BigEndian.Uint16(value)
	case typ == nl.IPSET_ATTR_PROTO && len(value) == 1:
		e.protocol = dataplane.Protocol(value[0])
	case typ == nl.IPSET_ATTR_CIDR2 && len(value) == 1:
		e.bits = value[0]
	case typ == nl.IPSET_ATTR_MARK && len(value) == 4, typ == nl.IPSET_ATTR_SKBMARK && len(value) == 8:
		e.mark = binary.BigEndian.Uint32(value)
	}
	return nil
}

// decodeAddr reads an address, which is wrapped in an attribute of its own.
func decodeAddr(b []byte, a *netip.Addr) error {
	return eachAttribute(b, func(_ int, v []byte) error {
		var ok bool
		if *a, ok = netip.AddrFromSlice(v); !ok {
			return fmt.Errorf("address of %d bytes", len(v))
		}
		return nil
	})
}
