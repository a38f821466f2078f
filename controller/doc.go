// Package controller decides which Pods there are to be: Deployments and their
// ReplicaSets, StatefulSets and DaemonSets.
//
// Reconcile is all of it: what is wanted and what is observed go in, the actions
// of one pass come out. It counts and compares, and remembers nothing: called
// again with what its actions made, it has nothing more to do. It is pure: the
// time and the endings of names are given to it.
//
// It makes no Pod and writes no file: package agent has package pods make and end
// what the actions name, and keeps the objects. It knows no Service and no rule.
//
//	manifests ─▶ cluster.Store ─▶ controller.Reconcile ─▶ actions ─▶ pods ─▶ status ┐
//	                                   ▲──────────────── observed ◀─────────────────┘
package controller
