// Package rollout is what people ask of a workload from the command line: how far
// its rollout is, which revisions it has had, to go back to one, to restart, to
// pause, to scale.
//
// It changes the objects that are given to it and tells how they stand, in kubectl's
// words. It is pure, keeps nothing, and moves no Pod: package controller does what
// the changed object asks for.
//
//	command ──▶ rollout ──▶ live object (cluster/state) ──▶ controller ──▶ Pods
package rollout
