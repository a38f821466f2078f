// Package workload keeps the live workloads of a node below its state directory:
// Deployments, ReplicaSets, StatefulSets, DaemonSets and their histories.
//
// Merge brings the manifests onto the live objects and hands these to the
// controller; Keep writes down what the controller has decided, its events too. It
// decides nothing itself, makes no Pod and knows no rule. Commands such as scale
// change the same files meanwhile; nothing of theirs is lost.
//
// In the flow it stands between the manifests and package controller: agent's loop
// and the command sync call it once a pass.
package workload
