// Package state keeps live objects where every toyproxy process finds them: one
// JSON file an object below a state directory.
//
//	STATEDIR/services/default_web.json
//	STATEDIR/pods/default_web-1.json
//	STATEDIR/nodes/node-1.json
//	STATEDIR/deployments/default_web.json
//	STATEDIR/events/default_web.0123456789abcdef.json
//	STATEDIR/problems.json: what is wrong with the input now
//
// A file is written under another name and renamed, so that a reader sees an
// object whole or not at all, whenever the writer was killed. The directory is
// meant to lie in memory (/run): it ends with the kernel state it describes, and
// is therefore never flushed to a disk.
//
// Kernel state is not kept here: the kernel is the only truth about the kernel.
// In the flow it stands beside the manifests: agent and pods write, all commands
// read.
package state
