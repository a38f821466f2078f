package pods

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Vigil tells at once when a pause process has ended, whoever's child it is: the
// kernel says so of a descriptor of the process.
type Vigil struct {
	epoll, stop int
	wake        func()
	done        sync.WaitGroup

	mu  sync.Mutex
	fds map[process]int
}

// NewVigil returns a vigil over no process. Wake is called by a goroutine of its
// own, until Close.
func NewVigil(wake func()) (*Vigil, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch over processes: %w", err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, stop, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(stop)})
	}
	if err != nil {
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("watch over processes: %w", err)
	}
	v := &Vigil{epoll: epoll, stop: stop, wake: wake, fds: map[process]int{}}
	v.done.Go(v.run)
	return v, nil
}

// run waits for processes to end. Each is told of once.
func (v *Vigil) run() {
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(v.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			if int(e.Fd) == v.stop {
				return
			}
		}
		v.wake()
	}
}

// Keep makes it watch over the pause processes of these Pods, and no others.
func (v *Vigil) Keep(seen []Seen) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := map[process]bool{}
	var errs []error
	for _, s := range seen {
		if s.live.held {
			now[s.live.pause] = true
			errs = append(errs, v.add(s.live.pause))
		}
	}
	for p, fd := range v.fds {
		if !now[p] {
			_ = unix.Close(fd) // leaves the epoll too
			delete(v.fds, p)
		}
	}
	return errors.Join(errs...)
}

func (v *Vigil) add(p process) error {
	if _, known := v.fds[p]; known {
		return nil
	}
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil // the next look sees it
	}
	if err != nil {
		return fmt.Errorf("watch over process %d: %w", p.Pid, err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(fd)}
	if err := unix.EpollCtl(v.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("watch over process %d: %w", p.Pid, err)
	}
	v.fds[p] = fd
	return nil
}

// Close ends the vigil.
func (v *Vigil) Close() error {
	_, err := unix.Write(v.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	v.done.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	for p, fd := range v.fds {
		_ = unix.Close(fd)
		delete(v.fds, p)
	}
	return errors.Join(err, unix.Close(v.stop), unix.Close(v.epoll))
}
