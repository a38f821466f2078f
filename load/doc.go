// Package load sends connections to a frontend at a steady rate and counts who
// answered and what failed.
//
// It asks as any client would: one TCP connection, one HTTP request, one answer.
// The stand-in of a Pod says its name to GET /hostname, so the count is by Pod. It
// is for lessons and tests that have to show that nothing failed while something
// changed; it measures no throughput.
//
// It works in the network namespace of the process and knows nothing of
// toyproxy: what stands between it and the Pods is what is looked at.
package load
