// Package proxy serves an ingress.Config: it accepts the connections of clients,
// asks package ingress which route has a request, and passes it on to an endpoint
// of the route's Service.
//
// A Proxy is told of changes by Apply (another Config) and Update (Services and
// endpoints that changed), and works with the new ones from the next request on.
// Requests, upgraded connections and downloads that are under way keep what they
// began with; nothing is ever cut for a change.
//
// It decides neither what an object means (packages ingress and ingress/gateway)
// nor where objects come from (cmd/toyproxy). It is built on net/http, whose
// reading of requests it makes stricter by watching the bytes of clients (framing).
// In the flow:
//
//	Config ─▶ proxy ◀─ Services, EndpointSlices
//	            │
//	  client ─▶ port ─▶ guard ─▶ route ─▶ filters ─▶ pool ─▶ endpoint
package proxy
