package main

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/doctor"
)

// chooseLimit is how long the examination of a machine may take.
const chooseLimit = 20 * time.Second

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
	ctx, cancel := context.WithTimeout(context.Background(), chooseLimit)
	defer cancel()
	name, why := doctor.Choose(ctx, os.Geteuid() == 0)
	*b = backendName(name)
	return why
}

// shutForward warns of a node whose rules are nftables' while iptables drops what
// is forwarded, in a family that has frontends. A Pod forwards nothing.
func (b backendName) shutForward(ctx context.Context, sc scope, table dataplane.Table) []cluster.Problem {
	if b != backendNftables || sc.pod {
		return nil
	}
	var families []dataplane.Family
	for _, fe := range table.Frontends {
		if f := dataplane.FamilyOf(fe.Addr); !slices.Contains(families, f) {
			families = append(families, f)
		}
	}
	slices.Sort(families)
	detail, mend := doctor.ShutForward(ctx, families...)
	if detail == "" {
		return nil
	}
	return []cluster.Problem{{Field: "--backend", Warning: true, Message: detail + ": " + mend}}
}
