package podnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Item is one link, address or route of the node, in words close to `ip`'s:
// "link toybr0 up", "address 10.244.0.1/24 dev 3", "route 10.96.0.0/12 dev 3".
type Item struct {
	Text string
	// Gone: it was removed.
	Gone bool
}

// Event tells what changed in the network of a node.
type Event struct {
	// Full: Items lists everything there is, instead of what changed. The first
	// event is one, and so is the first after the kernel dropped messages.
	Full bool
	// Lost: the kernel dropped messages because nobody read them in time.
	Lost  bool
	Items []Item
}

// watchBuffer is the receive buffer of a watch, in bytes.
const watchBuffer = 1 << 20

// Watch reports changes of links, addresses and routes of the network namespace
// of the calling thread. When the reader is slow and the kernel drops messages,
// everything is listed again. The channel is closed, and the sockets with it,
// when the context ends or the kernel refuses to list.
func Watch(ctx context.Context) (<-chan Event, error) { return watch(ctx, watchBuffer) }

func watch(ctx context.Context, buffer int) (<-chan Event, error) {
	// Both sockets are opened here: the goroutine's thread may be elsewhere.
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink subscription: %w", err)
	}
	if err := s.SetReceiveBufferSize(buffer, false); err != nil {
		s.Close()
		return nil, fmt.Errorf("netlink receive buffer: %w", err)
	}
	k, err := openKernel()
	if err != nil {
		s.Close()
		return nil, err
	}
	w := &watcher{socket: s, kernel: k, out: make(chan Event)}
	stop := context.AfterFunc(ctx, s.Close) // ends Receive
	go func() {
		defer close(w.out)
		defer k.close()
		defer func() {
			if stop() {
				s.Close()
			}
		}()
		w.run(ctx)
	}()
	return w.out, nil
}

type watcher struct {
	socket *nl.NetlinkSocket
	kernel *kernel
	out    chan Event
}

// run lists everything, then passes changes on until the context ends.
func (w *watcher) run(ctx context.Context) {
	e, ok := w.list(false)
	for ok && w.send(ctx, e) {
		msgs, from, err := w.socket.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			if ok = w.drain(); ok {
				e, ok = w.list(true)
			}
		case err != nil:
			ok = false // closed: the context has ended
		case from.Pid != nl.PidKernel:
			e = Event{}
		default:
			e = Event{}
			for _, m := range msgs {
				e.Items = append(e.Items, describe(m.Header.Type, m.Data)...)
			}
		}
	}
}

// drain reads and forgets what waits; false when the context has ended. Only an
// empty queue makes the kernel deliver again: until then it drops what comes, and
// does not tell a second time (netlink_overrun and netlink_rcv_wake).
func (w *watcher) drain() bool {
	if err := w.socket.SetReceiveTimeout(&unix.Timeval{Usec: 1000}); err != nil {
		return false
	}
	for {
		_, _, err := w.socket.Receive()
		switch {
		case errors.Is(err, unix.EAGAIN):
			return w.socket.SetReceiveTimeout(&unix.Timeval{}) == nil
		case err != nil && !errors.Is(err, unix.ENOBUFS):
			return false
		}
	}
}

// send hands an event over; false when the context has ended.
func (w *watcher) send(ctx context.Context, e Event) bool {
	if len(e.Items) == 0 && !e.Full {
		return ctx.Err() == nil
	}
	select {
	case w.out <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// list returns everything there is. The messages still waiting are older than
// the list or repeat it, and do no harm.
func (w *watcher) list(lost bool) (Event, bool) {
	links, err1 := dump(w.kernel.h.LinkList)
	addrs, err2 := dump(func() ([]netlink.Addr, error) { return w.kernel.h.AddrList(nil, netlink.FAMILY_ALL) })
	routes, err3 := dump(func() ([]netlink.Route, error) { return w.kernel.h.RouteList(nil, netlink.FAMILY_ALL) })
	if errors.Join(err1, err2, err3) != nil {
		return Event{}, false
	}
	e := Event{Full: true, Lost: lost}
	for _, l := range links {
		e.Items = append(e.Items, Item{Text: linkText(l)})
	}
	for _, a := range addrs {
		e.Items = append(e.Items, Item{Text: fmt.Sprintf("address %s dev %d", a.IPNet, a.LinkIndex)})
	}
	for _, r := range routes {
		e.Items = append(e.Items, Item{Text: fmt.Sprintf("route %s dev %d", r.Dst, r.LinkIndex)})
	}
	slices.SortFunc(e.Items, func(a, b Item) int { return strings.Compare(a.Text, b.Text) })
	return e, true
}

// describe turns one message of the kernel into items; none for what it does not
// know, such as routes of the table local.
func describe(kind uint16, data []byte) []Item {
	switch kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		l, err := netlink.LinkDeserialize(nil, data)
		if err != nil {
			return nil
		}
		return []Item{{Text: linkText(l), Gone: kind == unix.RTM_DELLINK}}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return []Item{{Text: addrText(data), Gone: kind == unix.RTM_DELADDR}}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if nl.DeserializeRtMsg(data).Table != unix.RT_TABLE_MAIN {
			return nil
		}
		return []Item{{Text: routeText(data), Gone: kind == unix.RTM_DELROUTE}}
	}
	return nil
}

func linkText(l netlink.Link) string {
	state := "down"
	if l.Attrs().Flags&net.FlagUp != 0 {
		state = "up"
	}
	return fmt.Sprintf("link %s %s", l.Attrs().Name, state)
}

func addrText(data []byte) string {
	msg := nl.DeserializeIfAddrmsg(data)
	var ip net.IP
	for _, a := range attributes(data, msg.Len()) {
		if a.Attr.Type == unix.IFA_ADDRESS && ip == nil || a.Attr.Type == unix.IFA_LOCAL {
			ip = a.Value
		}
	}
	return fmt.Sprintf("address %s/%d dev %d", ip, msg.Prefixlen, msg.Index)
}

func routeText(data []byte) string {
	msg := nl.DeserializeRtMsg(data)
	dst, dev := net.IPv6zero, uint32(0)
	if msg.Family == unix.AF_INET {
		dst = net.IPv4zero
	}
	for _, a := range attributes(data, msg.Len()) {
		switch a.Attr.Type {
		case unix.RTA_DST:
			dst = a.Value
		case unix.RTA_OIF:
			dev = nl.NativeEndian().Uint32(a.Value)
		}
	}
	return fmt.Sprintf("route %s/%d dev %d", dst, msg.Dst_len, dev)
}

// attributes parses what follows a message's fixed part; nil when that is broken.
func attributes(data []byte, fixed int) []syscall.NetlinkRouteAttr {
	if len(data) < fixed {
		return nil
	}
	attrs, err := nl.ParseRouteAttr(data[fixed:])
	if err != nil {
		return nil
	}
	return attrs
}
