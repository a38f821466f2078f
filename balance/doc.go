// Package balance decides policy, and is the only place that does: which
// frontends a node has, which endpoints each may use, what becomes of a packet
// when there is none, whose source is rewritten, and for how long a client
// stays with an endpoint.
//
// It takes Services and their EndpointSlices and returns a dataplane.Table in
// which nothing is left to decide. Build makes one at once; a Ledger keeps one up
// to date, and tells of each change what the table loses and gains. It matches
// no selectors (package endpoints does), knows no kernel, and does no I/O.
//
// In the flow: endpoints → balance → dataplane.Backend.
//
// # Which Services have frontends
//
//	type ExternalName                    no: an alias of a DNS name
//	clusterIP None or empty              no: headless, clients dial endpoints
//	label service.kubernetes.io/
//	  service-proxy-name, any value      no: another proxy serves it
//	all others                           frontends for each port, in the families of
//	                                     the ClusterIPs; addresses of the other
//	                                     family are ignored
//
// Each way in is a door (see doors); a further one is a function more:
//
//	ClusterIP                            for all types
//	NodePort                             types NodePort and LoadBalancer, ports that
//	                                     have a node port; on Node.Addrs
//	LoadBalancerIP                       type LoadBalancer, each ingress address whose
//	                                     ipMode is not Proxy; host names are not read
//	ExternalIP                           for all types
//
// Of one address and port that several claim, through whatever doors, the older
// Service has it, but a ClusterIP is nobody else's; see Ledger. Within a Service the order is that of the list; an
// address that is restricted as a load balancer's is never open as an external IP.
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
//	weight                               annotation toyproxy.dev/weights of the slice,
//	                                     see package endpoints; 1 without
//
// # Which of them are usable
//
//	ready                                yes
//	serving and terminating              only when no endpoint in scope is ready:
//	                                     better a leaving endpoint than none
//	else                                 no
//
// There are two scopes, each of which falls back for itself:
//
//	cluster                              all endpoints; of the ready ones those that
//	                                     hints give to this node, else to its zone,
//	                                     else all (see near)
//	local                                endpoints whose nodeName is this node's;
//	                                     hints are not asked
//
// # What becomes of a packet
//
//	usable endpoints in scope            forwarded to one of them
//	none in scope, some elsewhere        dropped: the policy says not to go there
//	none anywhere                        refused, so that the client knows at once
//	source not allowed                   dropped, even if it would be refused
//
// Which scope, and whether the source is rewritten (+m):
//
//	                                     from a Pod  from the node  from outside
//	ClusterIP                            cluster     cluster +m     cluster +m
//	  internalTrafficPolicy Local        local       local +m       local +m
//	  Node.MasqueradeAll                 +m as well
//	other doors                          cluster +m  cluster +m     cluster +m
//	  externalTrafficPolicy Local        cluster     cluster +m     local
//
// A reply has to come back through this node to be rewritten: that of a Pod's
// packet does, others are made to. With externalTrafficPolicy Local a client
// outside keeps its source, since its endpoint is here; Pods and the node are
// inside, and need not care on which node the endpoint is.
//
// Where Pods cannot be told from what is outside (neither PodRanges of the
// family nor PodInterfaces), nobody is masqueraded at a ClusterIP, and with
// externalTrafficPolicy Local a Pod is treated as a client outside.
//
// # Source ranges
//
// loadBalancerSourceRanges restrict load balancer addresses only, for every
// source, and each family for itself: a family without a range is open, which is
// a warning when the other has one. A range of length 0 opens its family. A text
// that is no range lets nobody in; where nothing else is left the address has no
// frontend. When a range holds an address by which the node is known, the load
// balancer's own addresses are allowed as well, because that is the source a
// node has that owns them.
package balance
