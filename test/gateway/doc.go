// Package gateway runs the conformance suite of the Gateway API, the project's own,
// against ingress/gateway and ingress/proxy: its manifests, its requests, its checks.
//
// The suite wants a cluster. It gets the objects' half of one: a client that keeps
// objects in memory with the generations an API server counts, Pods that are servers on
// addresses of the loopback, and a loop that does what `toyproxy ingress` does: compile,
// serve, write statuses back. Each Gateway has a proxy and an address of its own, as
// the suite expects. The tests run in a network namespace of their own.
//
// The list of what passes is written to docs/support.md.
package gateway
