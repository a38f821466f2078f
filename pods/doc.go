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
// What containers see is made by type world (world.go): the pause process is started
// in mount, UTS and IPC namespaces of the Pod's; each container gets at each start a
// mount namespace with a root of its own (root.go), in which the host's files lie
// below a layer that takes its changes, and the volumes that it names (mounts.go,
// volumes.go, payload.go). All of it lies in namespaces and in memory, so that
// nothing is left of it on the host, whatever ends the Pod. A process namespace is
// made only with shareProcessNamespace: otherwise containers see the host's
// processes, and TERM ends a program that does not ask for it.
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
