package xtables

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// ProbeSets tries whether the engine takes rules that look into an ipset and
// enter sources into it: make has to make a set of the tool's family, with
// timeouts, of that name in the namespace of the calling thread. Both happen in a
// namespace made for the trial. When something is missing, the error wraps
// dataplane.ErrUnsupported.
func (t Tool) ProbeSets(ctx context.Context, set string, make func() error) error {
	return inNewNamespace(func() error {
		if err := make(); err != nil {
			return err
		}
		text := Text("*nat\n:TOY-PROBE - [0:0]\n" +
			"-A TOY-PROBE " + InSet(set) + " -j RETURN\n" +
			"-A TOY-PROBE " + EnterSet(set, 1) + "\n" +
			"-I PREROUTING 1 -j TOY-PROBE\nCOMMIT\n")
		if err := t.Restore(ctx, text); err != nil {
			return &dataplane.Unsupported{Feature: "rules with ipset", Missing: fmt.Sprintf("match and target set (module xt_set), the tool says: %v", err),
				Mend: "load the module, or boot a kernel that has it"}
		}
		return nil
	})
}

// inNewNamespace calls f on a thread of its own in a network namespace of its
// own, and waits for it. Both end with the call: the thread is never handed back.
func inNewNamespace(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- &dataplane.Unsupported{Feature: "trial of rules with ipset", Missing: fmt.Sprintf("the right to make a network namespace (%v)", err),
				Mend: "run with CAP_SYS_ADMIN"}
			return
		}
		done <- f()
	}()
	return <-done
}
