package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	if shut := xtables.DropsForwarded(ctx, dataplane.IPv4, dataplane.IPv6); len(shut) > 0 {
		t := shut[0]
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

// ShutForward tells that iptables drops what is forwarded in one of the families,
// of which rules of nftables let nothing pass: what it is, and how to mend it.
// Both are empty when nothing is dropped so.
func ShutForward(ctx context.Context, families ...dataplane.Family) (detail, mend string) {
	var where, commands []string
	for _, t := range xtables.DropsForwarded(ctx, families...) {
		where = append(where, fmt.Sprintf("engine %s, %s", t.Engine, t.Family))
		name := "iptables"
		if t.Family == dataplane.IPv6 {
			name = "ip6tables"
		}
		commands = append(commands, fmt.Sprintf("%s-%s -P FORWARD ACCEPT", name, t.Engine))
	}
	if len(where) == 0 {
		return "", ""
	}
	return fmt.Sprintf("the policy of FORWARD is DROP in iptables (%s), and no rule of nftables lets a packet pass there: "+
			"with backend nftables, connections to Services that no rule of iptables accepts get no answer", strings.Join(where, "; ")),
		fmt.Sprintf("run '%s', or add rules to that chain that accept what goes to Pods and comes from them, or use --backend iptables", strings.Join(commands, "; "))
}

// forwarding is the finding about what iptables drops.
func forwarding(ctx context.Context, root bool) []Finding {
	if !root {
		return nil
	}
	if detail, mend := ShutForward(ctx, dataplane.IPv4, dataplane.IPv6); detail != "" {
		return []Finding{{"forwarded traffic", Warning, detail, mend}}
	}
	return nil
}
