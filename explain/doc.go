// Package explain answers what becomes of a packet, and why: which way it takes
// through the rules of the node, which field of which object is behind each
// step, which endpoints it may reach, and what is wrong when it reaches none.
//
// The way itself is walked by the backend (dataplane.Explainer), which knows
// rules and no Kubernetes. This package stands above it and joins what both
// sides know:
//
//	TARGET, --from ─▶ Target, From ─▶ dataplane.Packet ─▶ backend ─▶ dataplane.Trace
//	objects, table, trace ─▶ Explanation ─▶ text or JSON
//
// It decides no policy: what the table says is told, and the fields that made
// the table say so are named. It does no I/O.
package explain
