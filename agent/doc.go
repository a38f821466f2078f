// Package agent brings the parts of one node together: objects from a source,
// Pods, endpoints, the table, and the backend that makes the kernel match it.
//
// Resolve is the pure half: from objects to what the node should look like.
// Plan is the other: it reads what is there and lists what has to change, as
// one value that sync, plan, verify and the tests share. A Tracker does the same
// for objects that change one by one, at the cost of what changed, for the rules
// and flows of a node whose Pods live already. The package performs no I/O of
// its own: the Pod runtime, the backends and the state directory are given to
// it. It parses no manifest and decides no policy.
package agent
