package iptables

import (
	"context"
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipset"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

var _ dataplane.Fingerprinter = (*Backend)(nil)

// Fingerprint implements dataplane.Fingerprinter: all rules of both engines, our
// sets of clients, and whether connection tracking is liberal.
func (b *Backend) Fingerprint(context.Context) (string, error) {
	rules, err := xtables.Fingerprint()
	if err != nil {
		return "", err
	}
	sets, err := ipset.Fingerprint(ownedSet)
	return fmt.Sprintf("%s liberal %t sets %s", rules, xtables.Liberal(), sets), err
}
