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

// DropsForwarded returns, for each engine and each of the families, the tool that
// says that the policy of the chain FORWARD is to drop, as Docker leaves it: only
// rules in that chain let a packet pass then. An engine that cannot be read drops
// nothing.
func DropsForwarded(ctx context.Context, families ...dataplane.Family) []Tool {
	var out []Tool
	for _, e := range []Engine{NFT, Legacy} {
		for _, f := range families {
			t := Tool{Engine: e, Family: f}
			st, err := t.Save(ctx)
			if err != nil || st.Tables[Filter] == nil {
				continue
			}
			if base := st.Tables[Filter].Bases["FORWARD"]; base != nil && base.Policy == "DROP" {
				out = append(out, t)
			}
		}
	}
	return out
}
