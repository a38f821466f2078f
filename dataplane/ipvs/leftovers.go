package ipvs

import (
	"context"
	"errors"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/sysctl"
)

// Leftovers plans to remove what this backend made beside iptables rules:
// virtual servers, routes, sets and kernel parameters. It is for a node on
// which another backend is in use, whose rules have replaced ours; it is to be
// applied after them, because a set that a rule names cannot go. A kernel
// without IPVS holds nothing of ours: an empty plan.
func (b *Backend) Leftovers(ctx context.Context) (dataplane.Plan, error) {
	want := b.targets(dataplane.Table{}, families())
	changes, err := b.compare(ctx, want, nil, func() (dataplane.Plan, error) { return dataplane.Plans{}, nil })
	if errors.Is(err, dataplane.ErrUnsupported) {
		return dataplane.Plans{}, nil
	}
	if err != nil {
		return nil, err
	}
	parameters, err := sysctl.Restore(b.journal())
	if err != nil {
		return nil, err
	}
	return append(changes, parameters), nil
}
