package iptables

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/tables"
)

// sharesOf walks the choice of a set and returns what each endpoint gets, and
// the most rules that a packet meets.
func sharesOf(t *testing.T, s dataplane.EndpointSet) (fates tables.Fates, met int) {
	t.Helper()
	lead := xtables.Jump{Table: xtables.NAT, Base: "PREROUTING", Rule: goTo(setChain(s.Name, ""))}
	rules := xtables.Ruleset{Chains: pickChains(s, inSets), Jumps: []xtables.Jump{lead}}.Rules()
	p := dataplane.Packet{Key: dataplane.Key{Protocol: dataplane.TCP}, In: "br0"}
	fates = tables.FatesOf(follow(rules, p))
	if left := fates["none"]; left > 0 {
		t.Errorf("%g of the packets fall through", left)
	}
	return fates, metIn(rules, p)
}

func setOf(weights ...uint16) dataplane.EndpointSet {
	s := dataplane.EndpointSet{Name: "s", Service: "default/s", Protocol: dataplane.TCP}
	for i, w := range weights {
		a := netip.AddrFrom4([4]byte{10, 244, byte(i / 250), byte(1 + i%250)})
		s.Endpoints = append(s.Endpoints, dataplane.Endpoint{Addr: netip.AddrPortFrom(a, 80), Weight: w})
	}
	return s
}

func equalWeights(n int) []uint16 {
	w := make([]uint16, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

// TestExactShares proves that every endpoint gets its share to the kernel's
// resolution, that none starves, and that the rules met grow with the logarithm.
func TestExactShares(t *testing.T) {
	for _, tc := range []struct {
		name    string
		weights []uint16
		most    int
	}{
		{"1", equalWeights(1), 1}, {"2", equalWeights(2), 2}, {"3", equalWeights(3), 3}, {"7", equalWeights(7), 7},
		{"10", equalWeights(10), 10}, {"16", equalWeights(16), 16}, {"17", equalWeights(17), 9},
		{"64", equalWeights(64), 16}, {"65", equalWeights(65), 17}, {"1000", equalWeights(1000), 32},
		{"weights", []uint16{1, 2, 3, 65535, 4, 1, 7, 9, 10, 11}, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := setOf(tc.weights...)
			fates, met := sharesOf(t, s)
			total := float64(weight(s.Endpoints))
			for i, e := range s.Endpoints {
				got, want := fates["forward "+e.Addr.String()], float64(tc.weights[i])/total
				if math.Abs(got-want) > 4.0/resolution {
					t.Errorf("%s gets %.12f, want %.12f", e.Addr, got, want)
				}
			}
			if met > tc.most {
				t.Errorf("a packet meets %d rules, want at most %d", met, tc.most)
			}
		})
	}
}

// TestOneChain proves that a Service of the common size has one chain for its
// endpoints, and one of more than that has parts.
func TestOneChain(t *testing.T) {
	for endpoints, want := range map[int]int{1: 1, 10: 1, flat: 1, flat + 1: 4} {
		if got := len(pickChains(setOf(equalWeights(endpoints)...), inSets)); got != want {
			t.Errorf("%d endpoints have %d chains, want %d", endpoints, got, want)
		}
	}
}

// TestProbabilityText proves that every chance is printed so that the tool,
// which keeps 31 bits, reads the same number and prints the same text.
func TestProbabilityText(t *testing.T) {
	for _, steps := range []uint32{1, 2, 3, resolution / 3, resolution / 7, resolution - 1, 715827883, 306783378} {
		text := strings.Fields(statistic(steps))[5]
		var f float64
		fmt.Sscan(text, &f)
		kept := uint32(math.Round(f * resolution))
		if again := fmt.Sprintf("%.11f", float64(kept)/resolution); kept != steps || again != text {
			t.Errorf("%d steps print as %s, are read as %d and print as %s", steps, text, kept, again)
		}
	}
}

// TestOwnNames proves that every chain and jump of ours is recognised as ours.
func TestOwnNames(t *testing.T) {
	for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
		r := Ruleset(tables.EveryShape(), f, true)
		for _, c := range r.Chains {
			if !xtables.Owned(c.Name) {
				t.Errorf("chain %s is not recognised", c.Name)
			}
		}
		held := stateOf(t, r)
		if n := held.Foreign(); n != 0 {
			t.Errorf("%d rules or chains of ours count as foreign", n)
		}
	}
}

// TestNames proves that names are short, distinct and kept by later versions:
// a changed name would make every chain of every node change.
func TestNames(t *testing.T) {
	k := dataplane.Key{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: dataplane.TCP, Port: 80}
	long := netip.MustParsePrefix("fd00:10:96:ffff:ffff:ffff:ffff:ff00/120")
	for got, want := range map[string]string{
		frontendChain(k):            "TOY-SVC-CKAXWKG5LS3GTNNA",
		prefixChain(single(k.Addr)): "TOY-10.96.0.10/32",
		addressChain(k.Addr):        "TOY-10.96.0.10",
		prefixChain(long):           xtables.Name("NET", "", long.String()),
		hairpinPrefixChain(long):    xtables.Name("NET", "HP-", long.String()),
		prefixChain(netip.MustParsePrefix("fd00:10:96::a0/124")): "TOY-fd00_10_96__a0/124",
	} {
		if keyText(k) != k.String() {
			t.Errorf("%s is written %s", k, keyText(k))
		}
		if got != want || len(got) > xtables.MaxName {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
