package iptables

import (
	"context"
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// WalkLive follows a packet through the rules of ours that the kernel holds.
func (b *Backend) WalkLive(ctx context.Context, p dataplane.Packet) (dataplane.Trace, error) {
	found, err := b.Engine(ctx)
	if err != nil {
		return dataplane.Trace{}, err
	}
	tool := xtables.Tool{Engine: found.Engine, Family: dataplane.FamilyOf(p.Addr)}
	state, err := tool.Save(ctx)
	if err != nil {
		return dataplane.Trace{}, fmt.Errorf("rules of %s: %w", tool.Family, err)
	}
	return follow(state.Rules(), p), nil
}
