package xtables

import (
	"context"

	"github.com/toyproxy/toyproxy/dataplane"
)

// shut counts the built-in chains that drop what no rule takes: somebody has made
// them so.
func (s State) shut() int {
	n := 0
	for _, t := range s.Tables {
		for _, b := range t.Bases {
			if b.Policy == "DROP" {
				n++
			}
		}
	}
	return n
}

// DropsForwarded reports whether the policy of the chain FORWARD is to drop, in
// either engine and family, as Docker leaves it; the tool tells in which. Only
// rules in that chain let a packet pass then. An engine that cannot be read drops
// nothing.
func DropsForwarded(ctx context.Context) (Tool, bool) {
	for _, e := range []Engine{NFT, Legacy} {
		for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
			t := Tool{Engine: e, Family: f}
			st, err := t.Save(ctx)
			if err != nil || st.Tables[Filter] == nil {
				continue
			}
			if base := st.Tables[Filter].Bases["FORWARD"]; base != nil && base.Policy == "DROP" {
				return t, true
			}
		}
	}
	return Tool{}, false
}
