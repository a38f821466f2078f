// Package conformance is one suite of scenarios that every backend has to pass
// with real packets, and with the same outcome.
//
// A scenario is a file in testdata: what it shows, the Pods and servers of a
// lab, and steps. Each step is a complete set of Kubernetes objects and the
// flows that are then tried, each with its one expected outcome. The objects go
// the way of the product: manifest → cluster.Store → endpoints → balance →
// Table → Backend.Plan → Plan.Apply. After each step the kernel must need no
// further change and must equal one programmed from nothing; after the last,
// Remove must leave it as it was found.
//
// TestConformance ends with a matrix of scenarios and backends, which counts the
// flows that ended differently on two of them; docs/conformance.md has the list of
// scenarios and of the rows of behaviour that they are for.
//
// The suite decides nothing about what is right: the expectations are those of
// the product's contract, where kube-proxy's modes differ one of them.
//
// # Files
//
//	-- options --     lines "rows ROW…" (those of rows.txt that it shows), "pods N",
//	                  "second node", "needs sctp", "one family"
//	                  (NodePorts, external and load-balancer addresses),
//	                  "address HOST LINK ADDRESS" (one more, in both families)
//	-- servers --     lines "HOST… PROTOCOL PORT…": the echo servers that run
//	-- NAME.pods --   lines "POD LABEL=VALUE… [port=NAME:NUMBER…] [notready]"
//	-- NAME.yaml --   other objects: Services, EndpointSlices
//	-- NAME.node --   facts of the node: lines "zone ZONE", "nodeport WORD…",
//	                  "masquerade all", "mark BIT", "detect MODE [LINK]"
//	-- NAME.problems -- lines that each are a part of one problem with the objects;
//	                  without, nothing may be wrong with them
//	-- NAME.flows --  lines "FROM[@SOURCE] PROTOCOL ADDRESS:PORT OUTCOME…"
//
// A step begins with each new NAME; what it does not have, it keeps from the
// step before. Hosts are p1…, N (the node), X (outside), M and q1 (second node
// and its Pod); SOURCE is one of their addresses to send from.
//
// Objects and flows are written in IPv4 and made to count for IPv6 as well,
// unless the options say "one family": a Service with a ClusterIP becomes dual
// stack, at all its doors, an EndpointSlice gets a sister, a flow is tried twice (see lab.Twin).
//
// # Outcomes
//
//	OK p2:80 p3:80 nosnat   served, by each of these in turn and by no other; the
//	                        endpoint saw the client's own source (nosnat) or an
//	                        address of the node (snat)
//	STICKY p2:80 p3:80      served by one of these, always the same
//	REFUSED                 refused at once, by reset or ICMP
//	DROPPED                 no answer, and no packet left the node's uplink
//	x200                    added to one of these: as often as that; REFUSED x100
//	                        dials 100 at once
package conformance
