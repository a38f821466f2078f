package lab

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// probe makes one probe in the namespace of the thread. It uses bare system
// calls: as few as possible, for kernels in which each is slow, and because
// they tell a refusal from a reset from an ICMP error.
func probe(p dataplane.Protocol, to netip.AddrPort, opt Options) Outcome {
	if opt.Timeout == 0 {
		opt.Timeout = 3 * time.Second
	}
	start := time.Now()
	out := Outcome{}
	fd, err := dial(p, to, opt)
	if err == nil {
		err = await(fd, &out, start.Add(opt.Timeout))
		unix.Close(fd)
	}
	out.Took = time.Since(start)
	out.Fate, out.Err = fateOf(err), err
	return out
}

// dial returns a socket on which connection or datagram are under way.
func dial(p dataplane.Protocol, to netip.AddrPort, opt Options) (fd int, err error) {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	if p == dataplane.UDP {
		kind = unix.SOCK_DGRAM
	}
	fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(p))
	if err != nil {
		return -1, err
	}
	if err := begin(fd, p, to, opt); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func begin(fd int, p dataplane.Protocol, to netip.AddrPort, opt Options) error {
	if err := prepare(fd, p, to.Addr().Is6()); err != nil {
		return err
	}
	if opt.Source != 0 || opt.From.IsValid() {
		if err := bind(fd, to.Addr().Is6(), opt); err != nil {
			return err
		}
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	if p == dataplane.UDP {
		// EPERM: a rule on the way out dropped it. If it refused it as well,
		// that waits on the socket.
		if _, err := unix.Write(fd, []byte("?")); !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return nil
}

// prepare lets a closed connection vanish (reset, no TIME_WAIT), and a UDP
// socket hear of ICMP host and network unreachable, which it otherwise ignores.
func prepare(fd int, p dataplane.Protocol, v6 bool) error {
	switch {
	case p != dataplane.UDP:
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	case v6:
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	default:
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
	}
}

func bind(fd int, v6 bool, opt Options) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	from := opt.From
	switch {
	case from.IsValid():
	case v6:
		from = netip.IPv6Unspecified()
	default:
		from = netip.IPv4Unspecified()
	}
	return unix.Bind(fd, sockaddr(netip.AddrPortFrom(from, opt.Source)))
}

// await waits for the server's first words, or for the error that came instead.
func await(fd int, out *Outcome, deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		// rounded up: the last fraction of a millisecond must not spin
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		b := make([]byte, 256)
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOTCONN):
			continue // ENOTCONN: SCTP is still connecting
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		if err := source(fd, out); err != nil {
			return err
		}
		return parseAnswer(string(b[:n]), out)
	}
}

func source(fd int, out *Outcome) error {
	sa, err := unix.Getsockname(fd)
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		out.Source = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		out.Source = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return err
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

// fateOf reads the error of a socket call.
func fateOf(err error) Fate {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, unix.ECONNREFUSED):
		return Refused
	case errors.Is(err, unix.ETIMEDOUT), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EACCES):
		return Unreachable
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE), errors.Is(err, io.ErrUnexpectedEOF):
		return Reset
	}
	return Broken
}
