package conntrack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// ErrLost is wrapped when the kernel could not tell of all flows that ended,
// because they were not asked for soon enough. A dump shows which are still there.
var ErrLost = errors.New("events of flows that ended were lost")

const (
	// eventBuffer holds some thousand events: the kernel counts an event with all it
	// allocates for it, two kilobytes.
	eventBuffer = 8 << 20
	dumpBuffer  = 1 << 20
	// messageRoom is what one read takes: the kernel puts as much of a dump into one
	// answer as the reader had room for the time before, up to 32 kilobytes.
	messageRoom = 64 << 10
	nlHeader    = 16
)

// Watch reads what the kernel counts of the flows of one network namespace, that of
// the thread that opened it: by dumps, and by the events of flows that end. It
// belongs to one goroutine at a time, whatever its thread.
type Watch struct {
	events, dumps *os.File
	room          []byte
	sequence      uint32
}

// OpenWatch begins to collect events.
func OpenWatch() (*Watch, error) {
	w := &Watch{room: make([]byte, messageRoom)}
	var err error
	if w.events, err = openSocket(eventBuffer, 1<<(unix.NFNLGRP_CONNTRACK_DESTROY-1)); err != nil {
		return nil, err
	}
	if w.dumps, err = openSocket(dumpBuffer, 0); err != nil {
		_ = w.events.Close()
		return nil, err
	}
	return w, nil
}

// openSocket opens a netfilter socket that hears groups of events.
func openSocket(buffer int, groups uint32) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, explain("netfilter socket", err)
	}
	// A smaller buffer loses events earlier, and that is noticed.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		_ = unix.Close(fd)
		return nil, explain("events of tracked flows", err)
	}
	return os.NewFile(uintptr(fd), "netfilter"), nil
}

// Close ends the collection.
func (w *Watch) Close() error { return errors.Join(w.events.Close(), w.dumps.Close()) }

// Dump hands every flow of both families to yield, but for those whose end is being
// told just then.
func (w *Watch) Dump(ctx context.Context, yield func(Counted)) error {
	if err := w.dumps.SetReadDeadline(time.Now().Add(callLimit)); err != nil {
		return fmt.Errorf("dump of tracked flows: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = w.dumps.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
		if err := w.dump(f, yield); err != nil {
			return explain("dump of tracked flows", errors.Join(ctx.Err(), err))
		}
	}
	return nil
}

func (w *Watch) dump(f dataplane.Family, yield func(Counted)) error {
	w.sequence++
	if _, err := w.dumps.Write(dumpMessage(f, w.sequence)); err != nil {
		return err
	}
	for {
		n, err := receive(w.dumps, w.room)
		if err != nil {
			return err
		}
		done, err := eachMessage(w.room[:n], w.sequence, func(m []byte) {
			if c, ok := decodeCounted(m); ok && !c.dying {
				yield(c)
			}
		})
		if done || err != nil {
			return err
		}
	}
}

// Ended hands flows that have ended to yield: those of which the kernel has told
// since the last call. It does not wait. What nobody has asked for lies in a buffer;
// when that was full the error wraps ErrLost, and all that is in it was handed on.
func (w *Watch) Ended(yield func(Counted)) error {
	raw, err := w.events.SyscallConn()
	if err != nil {
		return fmt.Errorf("events of tracked flows: %w", err)
	}
	lost := false
	read := func(fd uintptr) error {
		for {
			n, _, err := unix.Recvfrom(int(fd), w.room, 0)
			switch {
			case errors.Is(err, unix.EAGAIN):
				return nil
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.ENOBUFS):
				lost = true
			case err != nil:
				return err
			default:
				if _, err := eachMessage(w.room[:n], 0, handCounted(yield)); err != nil {
					return err
				}
			}
		}
	}
	var failed error
	err = errors.Join(raw.Control(func(fd uintptr) { failed = read(fd) }), failed)
	switch {
	case err != nil:
		return fmt.Errorf("events of tracked flows: %w", err)
	case lost:
		return fmt.Errorf("%w: %w", ErrLost, unix.ENOBUFS)
	}
	return nil
}

// handCounted hands on those messages that are flows.
func handCounted(yield func(Counted)) func([]byte) {
	return func(m []byte) {
		if c, ok := decodeCounted(m); ok {
			yield(c)
		}
	}
}

// receive waits for the next messages.
func receive(f *os.File, room []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	waited := raw.Read(func(fd uintptr) bool {
		for {
			n, _, err = unix.Recvfrom(int(fd), room, 0)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	return n, errors.Join(waited, err)
}

// dumpMessage is the request for all flows of a family.
func dumpMessage(f dataplane.Family, sequence uint32) []byte {
	body := dumpRequest(f)
	b := binary.NativeEndian.AppendUint32(nil, uint32(nlHeader+len(body)))
	b = binary.NativeEndian.AppendUint16(b, unix.NFNL_SUBSYS_CTNETLINK<<8|1) // IPCTNL_MSG_CT_GET
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b = binary.NativeEndian.AppendUint32(b, sequence)
	return append(binary.NativeEndian.AppendUint32(b, 0), body...)
}

// eachMessage hands the bodies of the messages of one answer to yield, those of
// another conversation left out; sequence 0 takes all. done says that the dump has
// come to its end.
func eachMessage(b []byte, sequence uint32, yield func([]byte)) (done bool, err error) {
	for len(b) >= nlHeader {
		length := int(binary.NativeEndian.Uint32(b))
		if length < nlHeader || length > len(b) {
			return false, errors.New("damaged netlink message")
		}
		kind, body := binary.NativeEndian.Uint16(b[4:]), b[nlHeader:length]
		if sequence == 0 || binary.NativeEndian.Uint32(b[8:]) == sequence {
			switch kind {
			case unix.NLMSG_DONE:
				return true, nil
			case unix.NLMSG_ERROR:
				return true, errorOf(body)
			default:
				yield(body)
			}
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return false, nil
}

// errorOf is the error of a message that tells of one.
func errorOf(body []byte) error {
	if len(body) < 4 {
		return errors.New("damaged netlink error")
	}
	if number := -int32(binary.NativeEndian.Uint32(body)); number != 0 {
		return unix.Errno(number)
	}
	return nil
}
