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
// The slices are those that the EndpointSlice controller of a cluster would
// write, but for their names, which are a function of their contents here, and
// for topology hints, which are not written yet. Package balance
// decides which endpoints get traffic; this one only says what they are. It
// does no I/O and knows no kernel.
//
// In the flow: cluster.Store → endpoints → balance.
package endpoints
