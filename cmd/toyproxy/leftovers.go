package main

import (
	"context"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// leftovers are the backends that are not in use, whose traces are removed once
// the rules of the one in use stand. iptables and IPVS share their iptables
// rules, so each replaces those of the other; with nftables those go too, before
// what they name.
func (f *nodeFlags) leftovers(used backendName, sc scope) []agent.Leftover {
	switch used {
	case backendNftables:
		return []agent.Leftover{iptablesRules{}, f.newIPVS(sc), f.clientSets()}
	case backendIPVS:
		return []agent.Leftover{f.clientSets(), nftables.New(nftables.Config{})}
	}
	return []agent.Leftover{f.newIPVS(sc), nftables.New(nftables.Config{})}
}

// newFlows builds what removes stale flows beside the backend in use.
func (f *nodeFlags) newFlows(sc scope) *conntrack.Cleaner {
	return conntrack.New(conntrack.Config{Virtual: f.backend == backendIPVS, RealServers: f.newIPVS(sc).RealServers, Journal: sc.flowsJournal()})
}

// clientSets is what backend iptables makes beside rules.
func (f *nodeFlags) clientSets() agent.Leftover {
	return iptables.New(iptables.Config{Engine: f.engine.engine})
}

// nftablesStand reports whether the tables of backend nftables are there.
func nftablesStand(ctx context.Context) (bool, error) {
	p, err := nftables.New(nftables.Config{}).Remove(ctx)
	return err == nil && len(p.Changes()) > 0, err
}

// iptablesRules are the rules of IPVS and iptables alike, in both engines.
type iptablesRules struct{}

// Leftovers plans to remove them.
func (iptablesRules) Leftovers(ctx context.Context) (dataplane.Plan, error) {
	return xtables.NewRemoval(ctx)
}

// everything are the backends as a node has to be rid of them: at once, whatever
// connections go by them. The rules of iptables are another's business.
func (f *nodeFlags) everything(sc scope) []agent.Leftover {
	return []agent.Leftover{discarded{f.newIPVS(sc)}, nftables.New(nftables.Config{})}
}

// discarded is IPVS that waits for no connection to end.
type discarded struct{ *ipvs.Backend }

// Leftovers plans to remove what it made.
func (d discarded) Leftovers(ctx context.Context) (dataplane.Plan, error) { return d.Discard(ctx) }
