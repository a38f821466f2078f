package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/serve"
)

// udpBuffer is how much a socket holds of what was not read yet, if the system lets it.
const udpBuffer = 1 << 20

// listen opens one TCP port, and UDP sockets on the same one: as many as there are
// processors, among which the kernel parts the clients.
func listen(ctx context.Context, addr string) (net.Listener, []*net.UDPConn, error) {
	// First TCP, which nobody shares: a second server is told who has the port.
	tcp, err := serve.Listen(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, errors.Join(err, tcp.Close())
	}
	at := net.JoinHostPort(host, fmt.Sprint(tcp.Addr().(*net.TCPAddr).Port))
	var udp []*net.UDPConn
	config := net.ListenConfig{Control: prepareUDP}
	for range runtime.GOMAXPROCS(0) {
		conn, err := config.ListenPacket(ctx, "udp", at)
		if err != nil {
			for _, c := range udp {
				_ = c.Close()
			}
			return nil, nil, errors.Join(fmt.Errorf("UDP port %s: %w", at, err), tcp.Close())
		}
		_ = conn.(*net.UDPConn).SetReadBuffer(udpBuffer) // less will do
		udp = append(udp, conn.(*net.UDPConn))
	}
	return tcp, udp, nil
}

// prepareUDP lets several sockets share a port, and makes each tell which of the
// machine's addresses a packet came to.
func prepareUDP(network, _ string, raw syscall.RawConn) error {
	var err error
	set := func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		if network == "udp4" {
			err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
		} else {
			err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1))
		}
	}
	return errors.Join(raw.Control(set), err)
}

const (
	// controlBytes has room for what a socket tells of one packet.
	controlBytes = 64
	// cmsgHeader, and offsets behind it, of struct in_pktinfo (ip(7)) and in6_pktinfo
	// (ipv6(7)).
	cmsgHeader = unix.SizeofCmsghdr
	index4     = cmsgHeader
	index6     = cmsgHeader + 16
)

// replyFrom makes of what a socket told about a packet what makes the reply leave from
// the address it came to: by any interface, but for link-local addresses.
func replyFrom(control []byte, client netip.Addr) []byte {
	switch {
	case len(control) >= unix.CmsgSpace(unix.SizeofInet6Pktinfo) && !client.IsLinkLocalUnicast():
		clear(control[index6 : index6+4])
	case len(control) == unix.CmsgSpace(unix.SizeofInet4Pktinfo):
		clear(control[index4 : index4+4])
	}
	return control
}
