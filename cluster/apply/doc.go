// Package apply brings a manifest onto the object that lives, as kubectl apply
// brings it onto the object of an API server.
//
// Workloads are changed by two hands: by manifests, and by commands such as scale
// and rollout undo, which change the live object alone. So the manifest that was
// applied last is kept with the live object (annotation manifest.LastApplied), and
// only what the next manifest says otherwise than that one is changed: what it does
// not say, or still says, stays as a command has left it.
//
// It is pure: time and UIDs are given to it. It keeps no files (that does package
// cluster/state) and makes no Pods (package controller decides which).
//
//	manifest ──▶ apply.Apply ──▶ next live object ──▶ cluster/state ──▶ controller
//	live object ────▲
package apply
