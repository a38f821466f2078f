package main

import (
	"context"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
)

// leftovers are the backends that are not in use, whose traces are removed once
// the rules of the one in use stand. iptables and IPVS share their iptables
// rules, so each replaces those of the other; with nftables those go too.
func (f *nodeFlags) leftovers(used backendName, sc scope) []agent.Leftover {
	switch used {
	case backendNftables:
		return []agent.Leftover{rulesLeftover{f.newBackend(backendIPVS, sc), f.newBackend(backendIPTables, sc)}, f.clientSets()}
	case backendIPVS:
		return []agent.Leftover{f.clientSets(), nftables.New(nftables.Config{})}
	}
	virtual := f.newIPVS(sc)
	return []agent.Leftover{virtual, nftables.New(nftables.Config{})}
}

// clientSets is what backend iptables makes beside rules.
func (f *nodeFlags) clientSets() agent.Leftover {
	return iptables.New(iptables.Config{Engine: f.engine.engine})
}

// rulesLeftover is what IPVS and iptables have left.
type rulesLeftover struct{ ipvs, iptables dataplane.Backend }

// Leftovers plans to remove it. The removal of IPVS takes iptables rules along,
// but a kernel without IPVS has no such plan.
func (r rulesLeftover) Leftovers(ctx context.Context) (dataplane.Plan, error) {
	p, err := r.ipvs.Remove(ctx)
	if plans, ok := p.(dataplane.Plans); err == nil && ok && len(plans) == 0 {
		return r.iptables.Remove(ctx)
	}
	return p, err
}
