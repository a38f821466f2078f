package nftables

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/tables"
)

// FuzzDecodeRule proves that whatever stands in a rule of our table can be read,
// shown and walked through: anybody may have put it there.
func FuzzDecodeRule(f *testing.F) {
	for _, c := range build(tables.Small(), dataplane.IPv4).chains {
		for _, r := range c.rules {
			encoded, err := encodeRule(dataplane.IPv4, r)
			if err != nil {
				f.Fatal(err)
			}
			f.Add([]byte(strings.Join(encoded, "")))
		}
	}
	p := dataplane.Packet{Key: dataplane.Key{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: dataplane.TCP, Port: 80}, In: "br0"}
	f.Fuzz(func(t *testing.T, canonical []byte) {
		l := build(tables.Small(), dataplane.IPv4)
		r := decodeRule(dataplane.IPv4, string(canonical))
		for i, c := range l.chains {
			if c.name == servicesChain || c.name == postroutingChain {
				l.chains[i].rules = append([]rule{r}, c.rules...)
			}
		}
		sum := 0.0
		for _, o := range newWalker(l).walk(p).Outcomes {
			sum += o.Share
		}
		if sum < 0.999 || sum > 1.001 {
			t.Errorf("after %q %g of the packet is left", r.text(dataplane.IPv4), sum)
		}
	})
}
