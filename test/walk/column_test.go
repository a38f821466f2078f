package walk

import (
	"os"
	"slices"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
)

// column is a backend to walk with.
type column struct {
	name  string
	needs []lab.Feature
	// make returns a backend without memory; stateDir is the same for all of one
	// walk.
	make func(stateDir string) dataplane.Backend
	// virtual: IPVS does the translation.
	virtual bool
	// doors: it serves NodePorts, external and load-balancer addresses.
	doors bool
}

func columns() []column {
	withIptables := func(e xtables.Engine) func(string) dataplane.Backend {
		return func(string) dataplane.Backend { return iptables.New(iptables.Config{Engine: e}) }
	}
	return []column{
		{"iptables-nft", []lab.Feature{lab.IptablesNFT}, withIptables(xtables.NFT), false, true},
		{"iptables-legacy", []lab.Feature{lab.IptablesLegacy}, withIptables(xtables.Legacy), false, true},
		{"nftables", []lab.Feature{lab.Nftables}, func(string) dataplane.Backend { return nftables.New(nftables.Config{}) }, false, true},
		{"ipvs", []lab.Feature{lab.IPVS, lab.IPSet}, withIPVS, true, false},
	}
}

// withIPVS returns a backend that lets nothing drain: what drains is still there
// in one kernel and never was in another, and goes at its own time.
func withIPVS(stateDir string) dataplane.Backend {
	return ipvs.New(ipvs.Config{StateDir: stateDir, DrainLimit: -1})
}

// onColumns runs a test with every backend that this kernel is the one for: a
// guest was started for IPVS, the machine's own kernel has the others.
func onColumns(t *testing.T, test func(*testing.T, column)) {
	for _, c := range columns() {
		if os.Getenv(lab.GuestVariable) != "" && !slices.Contains(c.needs, lab.IPVS) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			lab.Require(t, append(c.needs, lab.Namespaces)...)
			test(t, c)
			t.Attr("exercised", c.name+" IPv4 IPv6") // for tools/testsum
		})
	}
}
