// Package xtables is what the backends that speak iptables share: the desired
// rules as values, the text that iptables-restore reads, the parser of what
// iptables-save prints, the difference between the two, and the one place that
// runs the tools.
//
// It is no policy and no rule of its own: which chains exist and what stands in
// them is decided by packages dataplane/iptables and dataplane/ipvs. It stands
// between them and the kernel:
//
//	Ruleset ─┐
//	         ├─ Diff ─▶ Delta ─▶ Plan.Apply ─▶ iptables-restore ─▶ kernel
//	Parse  ──┘
//	  ▲
//	iptables-save
//
// # Ownership
//
// Every chain whose name has one of the forms that Owned knows is ours, wherever
// it came from, and so is every rule of a built-in chain that leads to such a
// chain and has a JumpComment. Nothing else is ever changed, with one exception:
// a rule of somebody else that leads to a chain of ours goes when that chain
// goes, because the kernel keeps what is led to; the plan names it. The names are
// the only memory: a process that was killed leaves nothing that the next one
// does not recognise.
//
// # Canonical text
//
// Rules are compared as text, so a desired rule has to be spelled as
// iptables-save prints it. Both engines print the shapes used here alike; a test
// restores and saves each of them.
//
// # Input and output
//
// tool.go runs programs, trial.go tries rules in a namespace of its own,
// droptable.go sends one netlink message. Everything else in this package is pure.
package xtables
