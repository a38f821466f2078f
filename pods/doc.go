// Package pods makes the Pods of one node and keeps them without a daemon: each
// is held by a pause process of its own, which owns the Pod's network namespace,
// starts its containers as child processes, reaps, and outlives the toyproxy
// that started it.
//
// A container with a command runs that program of the host; there is no image
// store. One without is served by a built-in stand-in that listens on its
// containerPorts and says who answered (see StandIn). What crashed is recorded,
// and not restarted yet; there are no probes and no volumes yet.
//
// A Pod is never changed in place. When its spec changed, or when its pause
// process died, it is replaced by one of the same name with another address.
//
// Ownership survives amnesia: the command line of a pause process names its Pod
// and the state directory, and it sits in the Pod's network namespace. Only a
// process that does, or whose pid and start time were reported by itself, is ever
// ended.
//
// In the flow it stands beside the backends: package agent plans Pods first,
// makes the table from them as they will be, and applies creations before and
// deletions after the rules. Package podnet makes the networks; this package
// decides nothing about traffic.
package pods
