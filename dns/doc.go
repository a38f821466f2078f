// Package dns knows the records of a cluster's zone: which names Services, their
// endpoints and Pods have, by the Kubernetes DNS-Based Service Discovery
// specification 1.1.1 and, where that is silent, as CoreDNS's kubernetes plugin
// has them.
//
// It holds records derived from live objects, never a zone file; a change of an
// object changes its records alone. It does no I/O: dns/server answers queries from
// it and forwards the others. In the flow:
//
//	cluster/follow ─▶ dns.Zone ─▶ dns/server
package dns
