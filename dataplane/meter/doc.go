// Package meter counts what each Service port carries: connections, packets,
// bytes, and to which endpoints, whatever the backend.
//
// No rule counts, and nothing stands in the way of packets: the kernel keeps a
// count with each tracked flow by itself (sysctl net.netfilter.nf_conntrack_acct),
// whoever translates its address. A Meter hears the last count of each flow when
// it ends, and reads those of the flows that live now and then. The original
// destination of a flow is the frontend that was dialled, which says what Service
// port it is.
//
//	flows that end ──▶ Ledger ◀── dumps of all flows
//	                     ▲ │
//	table or its change ─┘ └─▶ lines: one a Service port
//
// Ledger is the pure half, Meter what reads the kernel. What cannot be known is
// counted as such: when so many flows end at once that the kernel's buffer
// overflows, Stats.Lost says of how many the last count is not known; those that
// lived so shortly that no dump saw them are missing altogether.
//
// A new Meter begins at zero: flows that were there before are shown as active, and
// only what they carry from then on is counted. It decides nothing and programs
// nothing but that one sysctl; packages metrics and top show its lines.
package meter
