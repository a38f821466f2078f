package xtables

// marker is a chain that stands in a table of the nft engine when the table did
// not exist before us. The legacy engine cannot remove a table at all; the nft
// engine can, and without the mark nobody could tell after a restart whether an
// empty table was ours to remove.
const marker = Prefix + "MADE-TABLE"

// withMarkers returns the ruleset with a marker chain for each table that does
// not exist yet, or has one already.
func withMarkers(want Ruleset, have State) Ruleset {
	if want.Empty() {
		return want
	}
	seen := map[Table]bool{}
	var marks []Chain
	for _, c := range want.Chains {
		if seen[c.Table] {
			continue
		}
		seen[c.Table] = true
		_, marked := have.chain(c.Table, marker)
		if have.Tables[c.Table] == nil || marked {
			marks = append(marks, Chain{Table: c.Table, Name: marker,
				Rules: []string{Comment("toyproxy made this table and removes it when empty")}})
		}
	}
	want.Chains = append(marks, want.Chains...)
	return want
}

// dispensable reports whether a built-in chain may go with our last rule in it:
// it stands in a table that we made, and does nothing else. guests is how many
// rules of others go too.
func dispensable(have State, at Jump, guests int) bool {
	_, marked := have.chain(at.Table, marker)
	if !marked {
		return false
	}
	b := have.Tables[at.Table].Bases[at.Base]
	return b != nil && b.Foreign == guests && b.Policy == "ACCEPT"
}
