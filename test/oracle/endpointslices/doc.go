// Package endpointslices asks the EndpointSlice controller of Kubernetes
// whether package endpoints is right: its test draws a Service and Pods, gives
// both to the controller's own reconciler and to an index, and requires the
// same slices. It has no code but the test.
package endpointslices
