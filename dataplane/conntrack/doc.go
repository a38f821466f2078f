// Package conntrack finds the tracked flows that a table makes stale, and
// removes them.
//
// The kernel asks the rules about the first packet of a flow only, and keeps the
// answer as long as packets come. A TCP connection ends with its endpoint; a UDP
// client that sends from one port for ever would be led to an endpoint that is
// gone, or past a frontend that came later, for ever. A flow is stale when a new
// one with the same source and destination could not get the same fate.
//
// Stale is the pure half: flows and table in, stale flows with reasons out. The
// other half reads the kernel's flows, once a pass and family, and deletes by
// exact tuple and identity. Nothing is remembered of tables before, but for the
// destinations outside of the Service ranges that once were frontends: that
// somebody's flow to such an address was ours cannot be seen any more once its
// rules have gone.
//
// It stands beside the backends and after them: package agent plans and applies
// it once the rules stand, because a packet between the two would make the entry
// again. It programs no rule, and touches no connection that has been answered, but
// for those that IPVS has cut when another backend took over.
package conntrack
