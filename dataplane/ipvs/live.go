package ipvs

import (
	"context"
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// WalkLive follows a packet through what the kernel holds of ours.
func (b *Backend) WalkLive(ctx context.Context, p dataplane.Packet) (dataplane.Trace, error) {
	f := dataplane.FamilyOf(p.Addr)
	k, err := openKernel()
	if err != nil {
		return dataplane.Trace{}, err
	}
	defer k.close()
	have, err := k.read(ctx, target{family: f})
	if err != nil {
		return dataplane.Trace{}, err
	}
	if err := b.detect(ctx); err != nil {
		return dataplane.Trace{}, err
	}
	rules, err := xtables.Tool{Engine: b.engine, Family: f}.Save(ctx)
	if err != nil {
		return dataplane.Trace{}, fmt.Errorf("rules of %s: %w", f, err)
	}
	return have.ground(rules.Rules()).walk(p), nil
}
