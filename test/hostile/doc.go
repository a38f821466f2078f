// Package hostile holds the tests that give the whole way from objects to
// rendered text what an enemy, or an accident, could write into a manifest:
// quotes, line ends, options of kernel tools, numbers out of range, ranges
// inside ranges.
//
// It holds tests alone and nothing is imported from it. What is tried is pure:
// package balance and the Render of each backend. That decoding stands the same
// is shown beside the decoders; that the kernel does, by the scripts of
// cmd/toyproxy.
package hostile
