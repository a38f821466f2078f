// Package ingress decides which requests go to which Service: it makes a Config
// from Ingress objects, and says which Route of it has a request.
//
// It does no I/O and accepts no connections: ingress/proxy does, and resolves the
// backends of a route to endpoints. ingress/gateway makes Configs from Gateway API
// objects; both are joined by Join. In the flow:
//
//	cluster/follow ─▶ ingress, ingress/gateway ─▶ Config ─▶ ingress/proxy ─▶ endpoints
package ingress
