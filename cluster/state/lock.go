package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	return fmt.Sprintf("another process works on this node (%s, lock %s): wait for it, or end it", cmp.Or(e.Holder, "of an unknown name"), e.Path)
}

// ClaimedError says that a node is kept in another state directory.
type ClaimedError struct{ StateDir, Wanted string }

// Error names both directories, and the two ways out.
func (e *ClaimedError) Error() string {
	return fmt.Sprintf("this node is kept in state directory %s, not in %s: use --state-dir %s, or remove it first with 'toyproxy down --state-dir %s'",
		e.StateDir, e.Wanted, e.StateDir, e.StateDir)
}

// Node is a node that this process has to itself.
type Node struct {
	file *os.File
	path string
}

// claim is what the lock's file says. It outlives the lock.
type claim struct {
	StateDir string `json:"stateDir"`
	// Holder is for people only: the lock itself is the kernel's.
	Holder string `json:"holder"`
}

// Lock makes this process the only writer of a node, for which path is a file of
// its own. It waits until the context ends, then returns a *HeldError. The lock
// ends with Unlock or with the process, however it ends. A node that is kept in
// another state directory, which still exists, gives a *ClaimedError.
func Lock(ctx context.Context, path, stateDir, holder string) (*Node, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("directory of the node's lock: %w", err)
	}
	f, err := flock(ctx, path)
	if err != nil {
		return nil, err
	}
	c := readClaim(path)
	if c.StateDir != "" && c.StateDir != stateDir {
		if _, err := os.Stat(c.StateDir); err == nil {
			_ = f.Close()
			return nil, &ClaimedError{c.StateDir, stateDir}
		}
	}
	text, err := json.Marshal(claim{stateDir, holder})
	if err == nil {
		err = writeClaim(f, append(text, '\n'))
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Node{f, path}, nil
}

// writeClaim writes over what the file says. On a full disk it is left as it is:
// the lock holds without it, and whoever removes a node to make room has to be
// let in.
func writeClaim(f *os.File, text []byte) error {
	_, err := f.WriteAt(text, 0)
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	return errors.Join(err, f.Truncate(int64(len(text))))
}

func readClaim(path string) claim {
	var c claim
	if text, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(text, &c)
	}
	return c
}

// flock opens and locks a file. A file that was removed while it was waited for
// is no lock any more: then the new one is taken.
func flock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
		if err != nil {
			return nil, fmt.Errorf("lock of the node: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && same(f, path) {
			return f, nil
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			return nil, &HeldError{path, readClaim(path).Holder}
		case <-time.After(lockPoll):
		}
	}
}

// Holder tells whether a process holds the lock of a node now, and what it calls
// itself. It takes no lock.
func Holder(path string) (name string, held bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", false
	}
	defer f.Close() // ends the trial
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil {
		return "", false
	}
	return readClaim(path).Holder, true
}

func same(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// Stands tells whether others still meet the lock: its file is where it was made.
func (n *Node) Stands() bool { return same(n.file, n.path) }

// Unlock lets others work on the node. It stays claimed for its state directory.
func (n *Node) Unlock() { _ = n.file.Close() }

// Forget gives up the claim, for a node of which nothing is left, and unlocks.
func (n *Node) Forget() {
	_ = os.Remove(n.path)
	_ = os.Remove(filepath.Dir(n.path)) // only when empty
	n.Unlock()
}
