// Package endpoints resolves Services to EndpointSlices: which Pods a selector
// selects, on which addresses and ports they serve, and in what condition.
//
// An Index holds Services, Pods and EndpointSlices as given. It is an inverted
// label index that works both ways, so that neither question is a scan:
//
//	Service → Pods   each label of a namespace lists the Pods that carry
//	                 it; a selector walks the shortest of its lists and checks
//	                 the others on each Pod
//	Pod → Services   each Service is filed under its rarest label; a Pod looks
//	                 only at the Services filed under labels it carries
//
// A changed Pod therefore costs what the Services that select it cost, however
// many others there are. Stats counts it.
//
// A changed Node costs the Services with trafficDistribution that have a Pod on
// it, and only when its zone is another one.
//
// The slices are those that the EndpointSlice controller of a cluster would
// write, with three differences: their names are a function of their contents;
// endpoints have a zone only where the Service has trafficDistribution, which
// gives them hints too; and the weights of Pods stand in an annotation, see
// WeightsAnnotation. Nothing is done for the annotation
// service.kubernetes.io/topology-mode. Package balance decides which endpoints
// get traffic; this one only says what they are. It does no I/O and knows no
// kernel.
//
// In the flow: cluster.Store → endpoints → balance.
package endpoints
