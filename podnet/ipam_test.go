package podnet

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var tinyRanges = []string{"10.0.0.0/30", "10.0.0.0/29", "10.0.0.248/29", "255.255.255.248/29", "fd00::/126", "fd00::fff0/125"}

// Whatever is given and taken back: an address in use is never given, no Pod gets
// the range's own, the gateway's or the broadcast address, a range is exhausted
// only when all of it is in use, and an address that was given back is not given
// again while another has rested longer.
func TestAllocationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := netip.MustParsePrefix(rapid.SampledFrom(tinyRanges).Draw(t, "range"))
		all := usableAddrs(r)
		rec := record{}.clone()
		given := map[netip.Addr]int{} // when it was last given
		for i := 1; i <= 60; i++ {
			name := fmt.Sprintf("p%d", rapid.IntRange(0, 9).Draw(t, "pod"))
			if _, exists := rec.Networks[name]; exists {
				delete(rec.Networks, name)
				continue
			}
			taken := rec.taken()
			got, err := rec.allocate(name, []netip.Prefix{r})
			if err != nil {
				if len(taken) != len(all) {
					t.Fatalf("%v with %d of %d taken", err, len(taken), len(all))
				}
				continue
			}
			a := got[0]
			if taken[a] || !all[a] {
				t.Fatalf("gave %s: taken %v, usable %v", a, taken[a], all[a])
			}
			for other := range all {
				if !taken[other] && given[other] == 0 && given[a] != 0 {
					t.Fatalf("gave %s again while %s was never used", a, other)
				}
			}
			given[a] = i
		}
	})
}

func usableAddrs(r netip.Prefix) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	a := r.Addr().Next().Next()
	for ; r.Contains(a); a = a.Next() {
		out[a] = true
	}
	if r.Addr().Is4() {
		delete(out, a.Prev())
	}
	if r.Addr() == netip.MustParseAddr("255.255.255.248") {
		delete(out, netip.MustParseAddr("255.255.255.255"))
	}
	return out
}

func TestAllocateExhaustedLeavesNothing(t *testing.T) {
	ranges := prefixes("10.0.0.0/24", "fd00::/126")
	rec := record{}.clone()
	for _, name := range []string{"a", "b"} {
		if _, err := rec.allocate(name, ranges); err != nil {
			t.Fatal(err)
		}
	}
	last := rec.Last[ranges[0]]
	_, err := rec.allocate("c", ranges)
	if err == nil || !strings.Contains(err.Error(), "fd00::/126 is exhausted") {
		t.Fatalf("got %v", err)
	}
	if _, exists := rec.Networks["c"]; exists || rec.Last[ranges[0]] != last {
		t.Errorf("the IPv4 half of a failed allocation stayed: %+v", rec)
	}
}

// Pods of one Deployment differ in their last letters only.
func TestHostLinkNames(t *testing.T) {
	seen := map[string]string{}
	for i := range 65536 {
		pod := fmt.Sprintf("a-namespace_web-frontend-with-a-long-name-%05d", i)
		name := hostLink(pod, 0)
		if err := checkLinkName(name); err != nil {
			t.Fatal(err)
		}
		if other, exists := seen[name]; exists {
			t.Fatalf("%s and %s are both %s", pod, other, name)
		}
		seen[name] = pod
	}
	if hostLink("a", 0) == hostLink("a", 1) {
		t.Error("a higher salt gives the same name")
	}
}

func TestNewRefuses(t *testing.T) {
	base := Config{PodRanges: podRanges}
	for _, tc := range []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"15 bytes", func(c *Config) { c.Bridge = strings.Repeat("b", 15) }, ""},
		{"16 bytes", func(c *Config) { c.Bridge = strings.Repeat("b", 16) }, `"bbbbbbbbbbbbbbbb" has 16 bytes`},
		{"40 bytes", func(c *Config) { c.Bridge = strings.Repeat("b", 40) }, "has 40 bytes"},
		{"slash", func(c *Config) { c.Bridge = "a/b" }, "no blanks, slashes"},
		{"host bits", func(c *Config) { c.PodRanges = prefixes("10.244.0.7/24") }, "write 10.244.0.0/24"},
		{"two of a family", func(c *Config) { c.PodRanges = prefixes("10.1.0.0/24", "10.2.0.0/24") }, "one range a family"},
		{"no room", func(c *Config) { c.PodRanges = prefixes("10.1.0.0/31") }, "too small"},
		{"overlap", func(c *Config) { c.ServiceRanges = prefixes("10.0.0.0/8") }, "overlaps"},
		{"small MTU", func(c *Config) { c.MTU = 1000 }, "from 1280"},
		{"small MTU for IPv4 alone", func(c *Config) { c.PodRanges, c.MTU = podRanges[:1], 1000 }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := base
			tc.edit(&cfg)
			_, err := New(cfg)
			if got := fmt.Sprint(err); tc.want == "" && err != nil || !strings.Contains(got, tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
