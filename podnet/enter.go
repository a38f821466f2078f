package podnet

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// threadNetns is the network namespace of the calling thread. /proc/self would be
// that of the main thread.
const threadNetns = "/proc/thread-self/ns/net"

// errNotFinished stands for a function that ended its goroutine.
var errNotFinished = errors.New("function ended its goroutine inside a network namespace")

// Do calls f with its thread in a network namespace and returns f's error. The
// namespace is a name below DefaultNetnsDir, or a path.
//
// f runs on a goroutine of its own: what it starts by `go` runs elsewhere, and
// sockets and processes that it opens stay in the namespace. When the thread
// cannot be brought back, it is thrown away and never runs other code.
func Do(namespace string, f func() error) error {
	h, err := netns.GetFromPath(namespacePath(namespace))
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", namespace, err)
	}
	defer h.Close()
	return onThread(func() error {
		if err := netns.Set(h); err != nil {
			return fmt.Errorf("entering network namespace %s: %w", namespace, err)
		}
		return f()
	})
}

// DoInNew calls f with its thread in a new network namespace that has nothing but
// its loopback link and ends with f: what a node is before anything is made of it.
func DoInNew(f func() error) error {
	return onThread(func() error {
		if err := unshareNetns(); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		k, err := openKernel()
		if err != nil {
			return err
		}
		err = errors.Join(setPodSysctls(), k.addLoopback(""))
		k.close()
		if err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		return f()
	})
}

// EnterAndExec replaces this process by a program that runs in a network
// namespace, given as for Do. argv[0] is the path of the program. It returns only
// when it fails; the thread is then unfit for other work, and stays locked.
func EnterAndExec(namespace string, argv, env []string) error {
	h, err := netns.GetFromPath(namespacePath(namespace))
	if err != nil {
		return fmt.Errorf("network namespace %s: %w; `ip netns list` shows those there are", namespace, err)
	}
	defer h.Close()
	runtime.LockOSThread()
	if err := netns.Set(h); err != nil {
		return fmt.Errorf("entering network namespace %s: %w", namespace, err)
	}
	return fmt.Errorf("exec of %s: %w", argv[0], syscall.Exec(argv[0], argv, env))
}

// NamespaceID is the inode of the network namespace of the calling thread. Two
// namespaces that exist at the same time have different ones.
func NamespaceID() (uint64, error) { return inode(threadNetns) }

// onThread calls f on a goroutine with a thread of its own, and brings the thread
// back to the namespace it came from.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		from, err := netns.GetFromPath(threadNetns)
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("network namespace of the thread: %w", err)
			return
		}
		defer from.Close()
		err = errNotFinished
		defer func() {
			// A goroutine that ends while locked takes its thread along.
			if netns.Set(from) == nil {
				runtime.UnlockOSThread()
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}

func namespacePath(namespace string) string {
	if strings.Contains(namespace, "/") {
		return namespace
	}
	return filepath.Join(DefaultNetnsDir, namespace)
}

func inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("stat of %s: %w", path, err)
	}
	return st.Ino, nil
}

// unshareNetns puts the calling thread, which is locked, into a new namespace.
func unshareNetns() error { return unix.Unshare(unix.CLONE_NEWNET) }
