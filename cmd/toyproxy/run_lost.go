package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster/state"
)

// lockEvery is how often run looks whether the lock of its node is still there.
const lockEvery = time.Second

// errLockLost: somebody has removed the state directory, and the lock with it. What
// is written and watched from then on would be files that nobody else sees, and
// another process could work on the node.
var errLockLost = errors.New("the state directory was removed, and the lock of this node with it")

// lossOf returns what tells whether the lock is none any more, and then cancels with
// errLockLost.
func lossOf(lock *state.Node, cancel context.CancelCauseFunc) func() bool {
	return func() bool {
		if lock.Stands() {
			return false
		}
		cancel(errLockLost)
		return true
	}
}

// watchLock asks for the lock until it is lost or the context ends.
func (d *daemon) watchLock(ctx context.Context) {
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for !d.lost() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// startAnew runs this program again in its place, with the same process id: locks,
// watches and live objects are all made as at a start. It returns on failure alone.
func startAnew() error {
	self, err := os.Executable()
	if err == nil {
		err = unix.Exec(self, append([]string{self}, os.Args[1:]...), os.Environ())
	}
	return fmt.Errorf("start anew after the loss of the state directory: %w", err)
}

// mender implements agent.Observer: it removes the damaged state files that a pass
// met. What is still wanted is written anew, and nothing else would ever go.
type mender struct{ log *slog.Logger }

func (m mender) Observe(r agent.Report) {
	if err := state.RemoveDamaged(r.Err); err != nil {
		m.log.Warn("damaged state files stay", "error", err.Error())
	}
}
