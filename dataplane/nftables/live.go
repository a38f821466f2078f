package nftables

import (
	"context"

	"github.com/toyproxy/toyproxy/dataplane"
)

// WalkLive follows a packet through our table as the kernel holds it.
func (b *Backend) WalkLive(ctx context.Context, p dataplane.Packet) (dataplane.Trace, error) {
	f := dataplane.FamilyOf(p.Addr)
	var have state
	err := locked(func(s *socket) (err error) {
		have, err = s.read(ctx, f)
		return err
	})
	if err != nil {
		return dataplane.Trace{}, err
	}
	w := newWalker(have.layout(f))
	if have.exists && have.flags != 0 {
		w = newWalker(layout{family: f})
		w.trace.Note("table %s %s is dormant: none of its rules is in force", ipText(f), tableName)
	}
	return w.walk(p), nil
}
