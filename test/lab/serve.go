package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Serve starts an echo server on a port of every address of the host, both
// families, until the test ends or stop is called. It answers a TCP or SCTP
// connection at once, and a UDP datagram whenever one comes, with
//
//	<name> <protocol> <local address> from <peer address>
//
// and then echoes what else a connection sends. stop cuts open connections.
func (h *Host) Serve(p dataplane.Protocol, port uint16) (stop func()) {
	h.t.Helper()
	var err error
	h.Do(func() { stop, err = h.serve(p, port) })
	if err != nil {
		h.t.Fatalf("%s: server on port %d/%s: %v", h.Name, port, p, err)
	}
	h.t.Cleanup(stop)
	return stop
}

func (h *Host) serve(p dataplane.Protocol, port uint16) (stop func(), err error) {
	switch p {
	case dataplane.UDP:
		c, err := listenUDP(port)
		if err != nil {
			return nil, err
		}
		return h.serveUDP(c), nil
	case dataplane.SCTP:
		ln, err := listenSCTP(port)
		if err != nil {
			return nil, err
		}
		return h.serveStream(p, ln), nil
	default:
		ln, err := net.Listen("tcp", ":"+strconv.Itoa(int(port)))
		if err != nil {
			return nil, err
		}
		return h.serveStream(p, ln), nil
	}
}

// serveUDP answers until stop, which waits for the end of it. The answer goes
// out with the address the question came to, as a host with several addresses
// needs: the kernel tells it beside the datagram, and takes it back likewise.
func (h *Host) serveUDP(c *net.UDPConn) (stop func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		b, beside := make([]byte, 2048), make([]byte, 256)
		for {
			_, n, _, peer, err := c.ReadMsgUDPAddrPort(b, beside)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			local, ok := arrivedAt(beside[:n])
			if err != nil || !ok {
				continue // an ICMP error for an earlier answer
			}
			at := netip.AddrPortFrom(local, c.LocalAddr().(*net.UDPAddr).AddrPort().Port())
			_, _, _ = c.WriteMsgUDPAddrPort(h.answer(dataplane.UDP, at, unmap(peer)), beside[:n], peer)
		}
	})
	return sync.OnceFunc(func() { c.Close(); wg.Wait() })
}

// arrivedAt reads the destination of a datagram from its control message.
func arrivedAt(beside []byte) (netip.Addr, bool) {
	messages, err := unix.ParseSocketControlMessage(beside)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, m := range messages {
		if m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 16 {
			return netip.AddrFrom16([16]byte(m.Data[:16])).Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// listenUDP makes a socket for both families that tells where datagrams arrive.
func listenUDP(port uint16) (*net.UDPConn, error) {
	var inner error
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		err := raw.Control(func(fd uintptr) {
			inner = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		})
		return errors.Join(err, inner)
	}}
	pc, err := lc.ListenPacket(context.Background(), "udp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

// serveStream answers connections until stop, which cuts them and waits.
func (h *Host) serveStream(p dataplane.Protocol, ln net.Listener) (stop func()) {
	open := connections{all: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // the client went before it was accepted
			}
			if !open.add(c) {
				return
			}
			wg.Go(func() {
				h.talk(p, c)
				open.drop(c)
			})
		}
	})
	return sync.OnceFunc(func() { ln.Close(); open.cut(); wg.Wait() })
}

// talk greets and then echoes until the client goes.
func (h *Host) talk(p dataplane.Protocol, c net.Conn) {
	local, peer := c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
	if _, err := c.Write(h.answer(p, unmap(local), unmap(peer))); err != nil {
		return
	}
	b := make([]byte, 2048)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

func (h *Host) answer(p dataplane.Protocol, local, peer netip.AddrPort) []byte {
	return fmt.Appendf(nil, "%s %s %s from %s\n", h.Name, p, local, peer)
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// listenSCTP makes a one-to-one SCTP socket, which the net package treats as
// it treats TCP: accepting, reading and writing are the same calls.
func listenSCTP(port uint16) (net.Listener, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_SCTP)
	if err != nil {
		return nil, fmt.Errorf("SCTP socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "sctp")
	defer f.Close()
	if err := unix.Bind(fd, &unix.SockaddrInet6{Port: int(port)}); err != nil {
		return nil, fmt.Errorf("SCTP bind: %w", err)
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return nil, fmt.Errorf("SCTP listen: %w", err)
	}
	return net.FileListener(f)
}

// connections are those a server has open.
type connections struct {
	mu  sync.Mutex
	all map[net.Conn]bool // nil once cut
}

func (o *connections) add(c net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		c.Close()
		return false
	}
	o.all[c] = true
	return true
}

func (o *connections) drop(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.Close()
	delete(o.all, c)
}

func (o *connections) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.all {
		c.Close()
	}
	o.all = nil
}
