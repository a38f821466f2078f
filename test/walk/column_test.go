package walk

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
	// drains: an endpoint that has left is still there, without new flows, while
	// its connections last, and with it the virtual server. Then that is let pass.
	drains bool
}

func columns() []column {
	withIptables := func(e xtables.Engine) func(string) dataplane.Backend {
		return func(string) dataplane.Backend { return iptables.New(iptables.Config{Engine: e}) }
	}
	return []column{
		{"iptables-nft", []lab.Feature{lab.IptablesNFT}, withIptables(xtables.NFT), false, false},
		{"iptables-legacy", []lab.Feature{lab.IptablesLegacy}, withIptables(xtables.Legacy), false, false},
		{"nftables", []lab.Feature{lab.Nftables}, func(string) dataplane.Backend { return nftables.New(nftables.Config{}) }, false, false},
		{"ipvs", []lab.Feature{lab.IPVS, lab.IPSet}, withIPVS(-1), true, false},
		{"ipvs-draining", []lab.Feature{lab.IPVS, lab.IPSet}, withIPVS(time.Minute), true, true},
	}
}

// withIPVS returns a backend that lets connections to what has gone last so long;
// negative: not at all.
func withIPVS(drain time.Duration) func(string) dataplane.Backend {
	return func(stateDir string) dataplane.Backend {
		return ipvs.New(ipvs.Config{StateDir: stateDir, DrainLimit: drain})
	}
}

// draining reports whether a change, or a line of a dump, is about nothing but
// what drains.
func (c column) draining(lines []string) bool {
	about := func(line string) bool {
		return strings.HasPrefix(line, "- -A ") || strings.HasPrefix(line, "- add TOY-MARK-") || strings.HasPrefix(line, "- create TOY-MARK-") ||
			strings.HasPrefix(line, "- -a ") && strings.Contains(line, " -w 0")
	}
	return c.drains && len(lines) > 0 && !slices.ContainsFunc(lines, func(l string) bool { return !about(l) })
}

// onColumns runs a test with every backend that this kernel is the one for: a
// guest was started for IPVS, the machine's own kernel has the others.
func onColumns(t *testing.T, columns []column, test func(*testing.T, column)) {
	for _, c := range columns {
		if os.Getenv(lab.GuestVariable) != "" && !slices.Contains(c.needs, lab.IPVS) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			lab.Require(t, append(c.needs, lab.Namespaces)...)
			test(t, c)
			backend, _, _ := strings.Cut(c.name, "-draining")
			t.Attr("exercised", backend+" IPv4 IPv6") // for tools/testsum
		})
	}
}
