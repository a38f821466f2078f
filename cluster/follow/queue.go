package follow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// none is the watch of what is not watched.
const none = -1

// queueBytes holds hundreds of events; the kernel wants room for one of the longest
// name at least.
const queueBytes = 64 << 10

// queue is the kernel's queue of events.
type queue struct {
	// file has the descriptor, for who waits; fd is read without waiting.
	file   *os.File
	fd     int
	buffer []byte
}

func openQueue() (queue, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if errors.Is(err, unix.EMFILE) {
		return queue{}, fmt.Errorf("inotify: %w: raise sysctl fs.inotify.max_user_instances, or the limit on open files", err)
	}
	if err != nil {
		return queue{}, fmt.Errorf("inotify: %w", err)
	}
	return queue{os.NewFile(uintptr(fd), "inotify"), fd, make([]byte, queueBytes)}, nil
}

// happening is one event: of the file name within the watched directory, or of the
// directory itself when name is empty.
type happening struct {
	watch int
	mask  uint32
	name  string
}

// drain gives every event that is queued to a function.
func (q queue) drain(note func(happening)) error {
	for {
		n, err := unix.Read(q.fd, q.buffer)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read of inotify: %w", err)
		}
		for rest := q.buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			length := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name, _, _ := bytes.Cut(rest[unix.SizeofInotifyEvent:length], []byte{0})
			note(happening{int(int32(binary.NativeEndian.Uint32(rest))), binary.NativeEndian.Uint32(rest[4:]), string(name)})
			rest = rest[length:]
		}
	}
}

// watch adds a watch of a directory, or returns the one that it has. A directory that
// is not there, or is none, has none.
func (q queue) watch(path string, mask uint32) (int, error) {
	wd, err := unix.InotifyAddWatch(q.fd, path, mask|unix.IN_ONLYDIR|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return none, nil
	case errors.Is(err, unix.ENOSPC):
		return none, fmt.Errorf("watch %s: %w: raise sysctl fs.inotify.max_user_watches", path, err)
	case err != nil:
		return none, fmt.Errorf("watch %s: %w", path, err)
	}
	return wd, nil
}

// forget ends a watch, which may have ended by itself.
func (q queue) forget(watch int) {
	if watch != none {
		_, _ = unix.InotifyRmWatch(q.fd, uint32(watch))
	}
}
