// Package server answers DNS queries on UDP and TCP: those of the cluster's zone from
// live objects, others by asking other resolvers.
//
// Before it answers it takes in what has changed in its source, so that no answer
// outlives its object. It serves only clients of the ranges it was given and of the
// cluster's nodes. It also tells Prometheus, and whoever asks on /health and /ready,
// how it fares, and keeps the history of the zone.
//
// What names mean is decided by package dns, whom to ask for others by dns/forward;
// here are sockets, packets and their limits. In the flow:
//
//	cluster/follow ─▶ dns.Zone ─▶ server ─▶ clients
//	                dns/forward ─┘
package server
