// Package forward asks other resolvers for names that are not of the cluster.
//
// Routes say whom to ask for which zone; upstreams that fail are asked last for a
// while; what they said is kept for as long as it may be, and several who ask the
// same wait for one answer. Resolvers that send queries back to this server are found
// by a probe and asked no more.
//
// It knows nothing of the cluster's own zone, nor of clients. In the flow:
//
//	dns/server ─▶ forward ─▶ the node's resolvers
package forward
