package main

import (
	"errors"
	"os"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
)

// choose replaces auto by the backend that it stands for and says why; it says
// nothing when the user has chosen, now or before: used is the backend of the last
// sync of the node, and stays.
func (b *backendName) choose(used string) (why string) {
	if *b != backendAuto {
		return ""
	}
	if used != "" {
		*b = backendName(used)
		return ""
	}
	*b, why = preferred(nftables.Probe(), os.Geteuid() == 0)
	return why
}

// preferred is nftables where the kernel has it, else iptables. IPVS is only ever
// taken by wish. Who may not ask the kernel gets what most kernels have.
func preferred(nft error, root bool) (backendName, string) {
	switch {
	case nft == nil:
		return backendNftables, "the kernel has it"
	case !errors.Is(nft, dataplane.ErrUnsupported) && !root:
		return backendNftables, "only root can ask the kernel whether it has it"
	}
	return backendIPTables, "no nftables: " + nft.Error()
}
