// Package pods makes the Pods of one node and keeps them without a daemon: each
// is held by a pause process of its own, which owns the Pod's network namespace,
// starts its containers as child processes, supervises them, reaps, and outlives
// the toyproxy that started it.
//
// A container with a command runs that program of the host; there is no image
// store. One without is served by a built-in stand-in that listens on its
// containerPorts and says who answered (see StandIn).
//
// The pause process is the Pod's kubelet. Its decisions are those of supervisor,
// which is pure: what has happened and when goes in, what to do comes out. Type
// pause does it, and tells what happens. Restarts with back-off, init containers,
// sidecars, probes, hooks and the end of a Pod are as in Kubernetes, but that a
// program without a readiness probe that declares TCP ports is ready only when it
// listens on them, or has had five seconds to, and that a readiness or startup
// probe is asked more often until it has passed once.
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
