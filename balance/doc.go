// Package balance decides policy, and is the only place that does: which
// frontends a node has, which endpoints each may use, what becomes of a packet
// when there is none, whose source is rewritten, and for how long a client
// stays with an endpoint.
//
// It takes Services and their EndpointSlices and returns a dataplane.Table in
// which nothing is left to decide. It matches no selectors (package endpoints
// does), knows no kernel, and does no I/O.
//
// In the flow: endpoints → balance → dataplane.Backend.
//
// # Which Services have frontends
//
//	type ExternalName                    no: an alias of a DNS name
//	clusterIP None or empty              no: headless, clients dial endpoints
//	label service.kubernetes.io/
//	  service-proxy-name, any value      no: another proxy serves it
//	all others                           one frontend for each ClusterIP and port
//
// NodePort and LoadBalancer Services have a ClusterIP like others. Each way in
// is a door (see doors); a further one is a function more.
//
// # Which endpoints a Service port has
//
//	slice labelled service.kubernetes.io/
//	  headless                           ignored: made for a headless Service
//	slice of type FQDN or of the other
//	  family                             ignored: one frontend has one family
//	slice port of that name and protocol its number is used; targetPort is never
//	                                     read, it may differ from Pod to Pod
//	slice port without name or number    ignored: it cannot be joined
//	endpoint's addresses                 the first only; the others are unspecified
//	same address and port twice          one endpoint: a copy that does not
//	                                     terminate wins, then a ready one, then a
//	                                     serving one
//	condition missing                    ready and serving: true, terminating: false
//
// # Which of them are usable
//
//	ready                                yes
//	serving and terminating              only when no endpoint in scope is ready:
//	                                     better a leaving endpoint than none
//	else                                 no
//
// The scope is the whole cluster, or with internalTrafficPolicy Local the
// endpoints whose nodeName is this node's.
//
// # What becomes of a packet to a ClusterIP
//
//	usable endpoints in scope            forwarded to one of them
//	none in scope, some elsewhere        dropped: the policy says not to go there
//	none anywhere                        refused, so that the client knows at once
//
//	from a Pod                           keeps its source: the reply comes back here
//	from the node or from outside        masqueraded: the reply has to come back
//	                                     through this node to be rewritten
package balance
