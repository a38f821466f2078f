// Package health answers those who ask whether this node is any use: people and
// supervisors on /healthz and /livez, and load balancers on the port that a
// Service with externalTrafficPolicy Local has for them.
//
// Judge is the pure half: what became known of the passes of a node in, whether it
// is healthy and why not out. State collects that from agent.Report, of which
// it is an agent.Observer, and answers with the words and codes of kube-proxy:
//
//	200  the kernel is as it is to be
//	503  nothing was programmed yet; or a change has waited, or passes have failed, or
//	     none has come to its end, for longer than the time-out; or an audit found
//	     the kernel changed by others, and could not put it right
//
// The last is where it is stricter than kube-proxy, which calls itself healthy as
// long as its own writes succeed. /livez leaves out that the node is about to
// go, which is no reason to start a process again.
//
// NodePorts keeps a listener for each health check of the node, as Services come
// and go. It programs nothing, counts nothing by itself, and opens no other port:
// package serve does that for the handlers.
package health
