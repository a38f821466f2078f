// Package sysctl sets kernel parameters of one network namespace, remembers
// what they were, and puts that back.
//
// Whoever needs a parameter states it as a Setting with a reason. Plan compares
// settings with the kernel; applying the plan first records the old value in a
// journal, a small JSON file in the state directory of the node, and only then
// writes. Restore reads the journal and plans the way back. A value that
// somebody else has changed meanwhile is theirs: Restore leaves it and says so.
//
// The package decides no value and knows no backend; it does not enter network
// namespaces either. /proc/sys/net shows the namespace of the calling thread,
// so callers lock their thread in the namespace they mean.
//
// In the flow it stands beside the backends: packages dataplane/ipvs and podnet
// hold settings, each with a journal of its own, and join the plans of this
// package with theirs.
package sysctl
