// Package gateway makes an ingress.Config from objects of the Gateway API, and the
// statuses that these objects get: which class and Gateway are taken, which listener
// is served, and to which of them each HTTPRoute is attached, or why not.
//
// It does no I/O and knows no clock: what is written back and when is decided by
// whoever calls it. It matches no requests either: package ingress does, with the
// Config. In the flow:
//
//	cluster/follow ─▶ ingress/gateway ─▶ Config ─▶ ingress.Join ─▶ ingress/proxy
//	                                 └▶ statuses ─▶ state directory
//
// The specification is that of gateway.networking.k8s.io/v1 as its Go types are
// documented; where it leaves a choice, the comment beside the code says which was taken.
package gateway
