package nftables

import (
	"context"
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
)

var _ dataplane.Fingerprinter = (*Backend)(nil)

// Fingerprint implements dataplane.Fingerprinter: the generation of the kernel's
// rules. What packets add to a set, as clients that are remembered, does not
// change it.
func (b *Backend) Fingerprint(context.Context) (out string, err error) {
	err = locked(func(s *socket) error {
		n, err := s.generation()
		out = fmt.Sprintf("nft %d", n)
		return err
	})
	return out, err
}
