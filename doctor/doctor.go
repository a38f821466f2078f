// Package doctor tells what a machine can do for toyproxy, what is missing, and
// what stands in the way.
//
// Each check asks the kernel or the system itself and changes nothing: trials
// of rules run in a network namespace made for them. It mends nothing. `toyproxy
// doctor` prints what it returns; other commands ask it which backend to take when
// nobody has said.
package doctor

import (
	"context"
	"os"
)

// Status is the outcome of a check.
type Status string

const (
	// OK: it is there, and works.
	OK Status = "ok"
	// Note: worth knowing; nothing has to be done.
	Note Status = "note"
	// Warning: something may go wrong because of it.
	Warning Status = "warning"
	// Missing: a feature is lacking; what needs it does not work.
	Missing Status = "missing"
)

// Finding is the outcome of one check.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Detail says what was found.
	Detail string `json:"detail"`
	// Mend says what to do about it; empty when there is nothing to do.
	Mend string `json:"mend,omitempty"`
}

// Options name what depends on how toyproxy will be used.
type Options struct {
	// StateDir is where live objects are kept.
	StateDir string
}

// Examine runs every check in the network namespace of the calling thread.
func Examine(ctx context.Context, o Options) []Finding {
	var out []Finding
	out = append(out, system(o)...)
	out = append(out, engines(ctx)...)
	out = append(out, ipvsFeature(ctx), nftablesFeature(), choice(ctx, os.Geteuid() == 0))
	out = append(out, programs()...)
	out = append(out, settings()...)
	out = append(out, forwarding(ctx, os.Geteuid() == 0)...)
	out = append(out, tracking()...)
	out = append(out, otherProxies(ctx)...)
	return out
}

// Usable tells whether at least one backend can work.
func Usable(fs []Finding) bool {
	for _, f := range fs {
		if f.Status == OK && (f.Check == checkIPVS || f.Check == checkNftables || f.Check == checkNFT || f.Check == checkLegacy) {
			return true
		}
	}
	return false
}

const (
	checkIPVS     = "backend ipvs"
	checkNftables = "backend nftables"
	checkNFT      = "backend iptables, engine nft"
	checkLegacy   = "backend iptables, engine legacy"
)
