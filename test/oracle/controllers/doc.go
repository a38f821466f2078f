// Package controllers compares our controllers with those of Kubernetes itself.
//
// Both sides get the same workloads and the same edits of them, and a kubelet that
// makes Pods ready at once, or never. Kubernetes' controllers run as they are, over
// a client that keeps objects in memory; ours are called until they have nothing
// more to do. At rest both must have come to the same: sizes, revisions and
// annotations of ReplicaSets, names and labels of Pods, statuses and conditions.
//
// It has tests alone, and belongs to the module of the oracle.
package controllers
