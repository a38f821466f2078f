// Package figures measures what Services cost on each backend, beside the shapes
// that kube-proxy gives its rules, all in one run on one machine: only ratios
// mean something elsewhere.
//
// It holds one Go benchmark; scripts/bench.d/services runs it once for each
// backend and size, in a process of its own so that peaks of memory are its
// own, and tools/plot draws what it prints. It asserts nothing.
package figures
