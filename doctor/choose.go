package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// The names of backends that Choose may choose.
const (
	backendNftables = "nftables"
	backendIPTables = "iptables"
)

// Choose returns the backend that fits the network namespace of the calling
// thread best, and why: nftables where the kernel has it, else iptables. IPVS is
// only ever taken by wish. Where iptables drops what is forwarded, as Docker makes
// it, only rules beside that policy can let Services through, and nftables has
// none there. Who may not ask the kernel is given what most kernels have.
func Choose(ctx context.Context, root bool) (backend, why string) {
	lacking := nftables.Probe()
	if lacking != nil {
		return without(lacking, root)
	}
	if t, drops := xtables.DropsForwarded(ctx); drops {
		return backendIPTables, fmt.Sprintf("the policy of FORWARD is DROP in iptables, engine %s, %s: rules of nftables cannot let Services through there", t.Engine, t.Family)
	}
	return backendNftables, "the kernel has it"
}

func without(lacking error, root bool) (backend, why string) {
	if !errors.Is(lacking, dataplane.ErrUnsupported) && !root {
		return backendNftables, "only root can ask the kernel whether it has it"
	}
	return backendIPTables, "no nftables: " + lacking.Error()
}

// choice says what --backend auto stands for on a node that uses none yet.
func choice(ctx context.Context, root bool) Finding {
	if !root {
		return notKnown("backend auto")
	}
	backend, why := Choose(ctx, root)
	return Finding{"backend auto", OK, backend + ", because " + why, ""}
}
