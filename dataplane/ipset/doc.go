// Package ipset keeps sets of client addresses in the kernel: the memory of
// session affinity for rules of iptables, which fill the sets themselves.
//
// It makes, renews and removes sets, and never enters a client into one, but for
// moving those of a set to its successor. Which sets there are and what they are
// called is decided by package dataplane/iptables, whose rules read and write
// them. Package dataplane/ipvs has sets of another kind, filled by the program,
// and does not use this package.
//
//	dataplane.Table ─▶ []Set ─▶ Diff ─▶ Plans.Before ─▶ rules ─▶ Plans.After
//
// A set has to be there before a rule can name it, and cannot go as long as one
// does: so what changes falls into two plans, with that of the rules in between.
//
// kernel.go speaks netlink with the kernel. Everything else here is pure.
package ipset
