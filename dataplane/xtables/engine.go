package xtables

import "fmt"

// Engine is one of the two implementations of the iptables tools. They keep
// separate rules in the kernel, and both sets are in force at once.
type Engine uint8

const (
	// Auto leaves the choice to Detect.
	Auto Engine = iota
	// NFT translates rules for nf_tables: iptables-nft.
	NFT
	// Legacy loads whole tables into x_tables: iptables-legacy.
	Legacy
)

// String returns "auto", "nft" or "legacy".
func (e Engine) String() string { return [...]string{"auto", "nft", "legacy"}[e] }

// Other returns the engine that this one is not. Auto has no other.
func (e Engine) Other() Engine {
	switch e {
	case NFT:
		return Legacy
	case Legacy:
		return NFT
	}
	return Auto
}

// ParseEngine reads "auto", "nft" or "legacy", as the command line spells them.
func ParseEngine(s string) (Engine, error) {
	for _, e := range []Engine{Auto, NFT, Legacy} {
		if s == e.String() {
			return e, nil
		}
	}
	return Auto, fmt.Errorf("iptables engine %q: want auto, nft or legacy", s)
}
