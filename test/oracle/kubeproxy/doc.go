// Package kubeproxy asks kube-proxy whether package balance is right: its test
// draws a Service and EndpointSlices, gives both to kube-proxy's own choice of
// endpoints, which all its modes share, and to balance, and requires the same
// frontends, routes and health checks. It has no code but the test.
package kubeproxy
