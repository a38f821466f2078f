package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a held lock is tried again.
const lockPoll = 50 * time.Millisecond

// HeldError says who holds the lock of a node.
type HeldError struct {
	Path   string
	Holder string
}

// Error names the holder.
func (e *HeldError) Error() string {
	return fmt.Sprintf("another toyproxy works on this node (%s, lock %s): wait for it, or end it", e.Holder, e.Path)
}

// Lock lets one writer at a time work on a node. It waits until the context
// ends, then returns a *HeldError. The lock ends with the returned function or
// with the process, however it ends. Holder describes the caller to others.
func Lock(ctx context.Context, path, holder string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock of the node: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			who, _ := os.ReadFile(path)
			_ = f.Close()
			return nil, &HeldError{path, strings.TrimSpace(string(who))}
		case <-time.After(lockPoll):
		}
	}
	// The text is for people only: the lock itself is the kernel's.
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(holder+"\n"), 0)
	return func() { _ = f.Close() }, nil
}
