package ipvs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// batchRequests bounds how many requests go to the kernel in one call. Each
	// may be answered by an error, and the answers of one call have to fit in the
	// receive buffer: about 770 bytes each, in one of 208 kB at least.
	batchRequests = 256
	// batchBytes bounds their size.
	batchBytes = 60_000
	// answerBytes is the size of the buffer for answers. The kernel fills up to
	// 32 kB of it when it lists something.
	answerBytes = 1 << 16
)

// socket is a netlink socket for many requests at a time. Its namespace is that
// of the thread that opened it. One goroutine may use it at a time.
type socket struct {
	file     *os.File
	sequence uint32
	out      encoder
	in       []byte
}

// openSocket opens a socket of a netlink protocol, as unix.NETLINK_GENERIC.
func openSocket(protocol int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "netlink"), in: make([]byte, answerBytes)}
	// Errors are answered without a copy of the request that they are about.
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1); err != nil {
		s.close()
		return nil, os.NewSyscallError("setsockopt NETLINK_CAP_ACK", err)
	}
	// Listings are narrowed down by the kernel, if it can: there may be very many
	// routes of others. We look at what is listed in any case.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	return s, nil
}

func (s *socket) close() { _ = s.file.Close() }

// failure is the answer to a request that the kernel refused.
type failure struct {
	// request is its place in what was sent.
	request int
	errno   unix.Errno
}

// send sends requests 0 to n-1 in order, many in one call. It returns those that
// the kernel refused, in order, and how many it has seen: a refused request does
// not hold up those behind it in the same call, but no further call is made. The
// function encode writes one request.
func (s *socket) send(ctx context.Context, n int, encode func(i int, e *encoder)) (refused []failure, seen int, err error) {
	for seen < n && len(refused) == 0 {
		s.out.buf = s.out.buf[:0]
		first, last, next := s.sequence+1, 0, seen
		for ; next < n && next-seen < batchRequests && len(s.out.buf) < batchBytes; next++ {
			last = len(s.out.buf)
			s.sequence++
			s.out.sequence = s.sequence
			encode(next, &s.out)
		}
		// The kernel answers for errors, and for the last request in any case.
		s.out.addFlags(last, unix.NLM_F_ACK)
		err := s.exchange(ctx, func(m answer) (bool, error) {
			errno, ok := m.errno()
			if age := int32(m.sequence - first); !ok || age < 0 {
				return false, nil // of a request that was given up
			} else if errno != 0 {
				refused = append(refused, failure{seen + int(age), errno})
			}
			return m.sequence == s.sequence, nil
		})
		if err != nil {
			return refused, seen, err
		}
		seen = next
	}
	return refused, seen, nil
}

// errInterrupted says that something changed while the kernel listed it: what
// came is half of the old and half of the new.
var errInterrupted = errors.New("listing interrupted by a change")

// list sends one request for a listing and calls each with the body of every
// answer.
func (s *socket) list(ctx context.Context, encode func(e *encoder), each func(body []byte) error) error {
	return s.ask(ctx, unix.NLM_F_DUMP, encode, each)
}

// ask sends one request, with flags that make the kernel say where its answers
// end, and calls each with the body of every answer.
func (s *socket) ask(ctx context.Context, flags uint16, encode func(e *encoder), each func(body []byte) error) error {
	s.out.buf = s.out.buf[:0]
	s.sequence++
	s.out.sequence = s.sequence
	encode(&s.out)
	s.out.addFlags(0, flags)
	interrupted := false
	err := s.exchange(ctx, func(m answer) (bool, error) {
		if m.sequence != s.sequence {
			return false, nil
		}
		interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
		if errno, ok := m.errno(); ok {
			return true, errnoError(errno)
		}
		return false, each(m.body)
	})
	if err == nil && interrupted {
		return errInterrupted
	}
	return err
}

// exchange sends what is encoded and calls take with each answer until it says
// that this was the last. It ends with the context, and in any case after
// callLimit without an end.
func (s *socket) exchange(ctx context.Context, take func(answer) (last bool, err error)) error {
	if err := s.file.SetDeadline(time.Now().Add(callLimit)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = s.file.SetDeadline(time.Unix(1, 0)) })()
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := s.file.Write(s.out.buf); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	for {
		n, err := s.file.Read(s.in)
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if last, err := eachAnswer(s.in[:n], take); last || err != nil {
			return err
		}
	}
}

// answer is a message from the kernel.
type answer struct {
	kind, flags uint16
	sequence    uint32
	body        []byte
}

// errno returns the error that the answer tells, zero for success; not ok if it
// tells of none.
func (m answer) errno() (errno unix.Errno, ok bool) {
	switch {
	case m.kind != unix.NLMSG_ERROR && m.kind != unix.NLMSG_DONE:
		return 0, false
	case len(m.body) < 4:
		return 0, true
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(m.body))), true
}

// errnoError keeps success from becoming an error.
func errnoError(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// eachAnswer calls take with the messages in b, up to the last that it wants.
func eachAnswer(b []byte, take func(answer) (last bool, err error)) (last bool, err error) {
	for len(b) >= unix.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.NLMSG_HDRLEN || size > len(b) {
			return false, fmt.Errorf("netlink message of %d bytes in %d", size, len(b))
		}
		m := answer{
			kind: binary.NativeEndian.Uint16(b[4:]), flags: binary.NativeEndian.Uint16(b[6:]),
			sequence: binary.NativeEndian.Uint32(b[8:]), body: b[unix.NLMSG_HDRLEN:size],
		}
		if last, err := take(m); last || err != nil {
			return last, err
		}
		b = b[min(aligned(size), len(b)):]
	}
	return false, nil
}
