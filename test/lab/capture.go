package lab

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// Capture sees the packets that leave a host by one link. It tells a packet
// that was dropped from one that leaked to the default route.
type Capture struct {
	host *Host
	fd   int
	sent map[netip.Addr]int
	once sync.Once
}

// Capture starts to watch a link until Close or the end of the test: the node's Uplink, say.
// The kernel keeps some hundred packets for it, so use one for few probes.
func (h *Host) Capture(link string) *Capture {
	h.t.Helper()
	c := &Capture{host: h, fd: -1, sent: map[netip.Addr]int{}}
	var err error
	h.Do(func() { c.fd, err = packetSocket(link) })
	if err != nil {
		h.t.Fatalf("%s: capture on %s: %v", h.Name, link, err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// Close ends the capture before the test does.
func (c *Capture) Close() { c.once.Do(func() { unix.Close(c.fd) }) }

// packetSocket hears every packet of a link; only a socket for all protocols
// hears those that leave.
func packetSocket(link string) (fd int, err error) {
	l, err := net.InterfaceByName(link)
	if err != nil {
		return -1, fmt.Errorf("link %s: %w", link, err)
	}
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all & 0xffff, Ifindex: l.Index}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("packet socket: %w", err)
	}
	return fd, nil
}

// Sent returns how many packets to an address have left by the link since the
// capture began.
func (c *Capture) Sent(to netip.Addr) int {
	b := make([]byte, 64)
	for {
		n, from, err := unix.Recvfrom(c.fd, b, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return c.sent[to]
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
			c.sent[destination(b[:n])]++
		}
	}
}

// destination reads the destination address of an IP packet.
func destination(b []byte) netip.Addr {
	var a netip.Addr
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		a, _ = netip.AddrFromSlice(b[16:20])
	case len(b) >= 40 && b[0]>>4 == 6:
		a, _ = netip.AddrFromSlice(b[24:40])
	}
	return a
}
