// Package lab builds small networks of real network namespaces for tests, and
// sends real packets through them.
//
// A Lab is a node with a bridge and Pods on it, an outside client that is also
// the node's default router, and, if asked for, a second node. Tests program
// the node by whatever they test (Host.Do runs a function there), start echo
// servers (Host.Serve) and probe addresses (Probe, ProbeMany): a probe ends in
// one of five fates, and names the endpoint that answered and the source
// address it saw. Host.Capture tells a packet that was dropped from one that
// leaked to the default route.
//
// The lab knows no Kubernetes object, no table and no backend; package
// conformance brings those. It never touches the namespace the test runs in,
// and what it makes ends with the test.
package lab
