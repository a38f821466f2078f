package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// backendName is the value of --backend.
type backendName string

const (
	backendAuto     backendName = "auto"
	backendIPTables backendName = "iptables"
	backendIPVS     backendName = "ipvs"
	backendNftables backendName = "nftables"
)

// Set implements pflag.Value.
func (b *backendName) Set(v string) error {
	if !slices.Contains([]backendName{backendAuto, backendIPTables, backendIPVS, backendNftables}, backendName(v)) {
		return errors.New("must be auto, iptables, ipvs or nftables")
	}
	*b = backendName(v)
	return nil
}

// String implements pflag.Value.
func (b *backendName) String() string { return string(*b) }

// Type implements pflag.Value.
func (b *backendName) Type() string { return "backend" }

// engineFlag is the value of --iptables-engine.
type engineFlag struct{ engine xtables.Engine }

// Set implements pflag.Value.
func (e *engineFlag) Set(v string) (err error) {
	e.engine, err = xtables.ParseEngine(v)
	return err
}

// String implements pflag.Value.
func (e *engineFlag) String() string { return e.engine.String() }

// Type implements pflag.Value.
func (e *engineFlag) Type() string { return "engine" }

// prefixList is a flag that holds ranges, at most one of each family.
type prefixList struct{ set []netip.Prefix }

// Set implements pflag.Value.
func (p *prefixList) Set(v string) error {
	set, err := parsePrefixes(v)
	if err == nil {
		p.set = set
	}
	return err
}

// String implements pflag.Value.
func (p *prefixList) String() string {
	parts := make([]string, len(p.set))
	for i, r := range p.set {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (p *prefixList) Type() string { return "cidrs" }

// checkRange refuses ranges whose addresses are no hosts'.
func checkRange(r netip.Prefix) error {
	a := r.Addr()
	switch {
	case a.Is4In6():
		return fmt.Errorf("%s is an IPv4 range in IPv6 clothes: write it as IPv4", r)
	case r.Bits() == 0:
		return fmt.Errorf("%s is every address there is: give a smaller range", r)
	case a.IsLoopback(), a.IsMulticast(), a.IsLinkLocalUnicast(), a.IsUnspecified():
		return fmt.Errorf("%s holds no addresses of hosts (loopback, multicast, link-local or unspecified)", r)
	}
	return nil
}

// checkedString is a flag whose value has to pass a check.
type checkedString struct {
	value string
	check func(string) error
}

// Set implements pflag.Value.
func (c *checkedString) Set(v string) error {
	if err := c.check(v); err != nil {
		return err
	}
	c.value = v
	return nil
}

// String implements pflag.Value.
func (c *checkedString) String() string { return c.value }

// Type implements pflag.Value.
func (c *checkedString) Type() string { return "name" }

func checkNodeName(v string) error {
	if msgs := validation.IsDNS1123Subdomain(v); len(msgs) > 0 {
		return errors.New(strings.Join(msgs, "; "))
	}
	return nil
}

// clusterDomain is the value of a flag --cluster-domain.
func clusterDomain() checkedString {
	return checkedString{value: "cluster.local", check: checkNodeName}
}

func checkScheduler(v string) error {
	if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return errors.New("must be the name of an IPVS scheduler, such as rr, wrr, lc, wlc, sh or mh")
	}
	return nil
}

func mustPrefixes(s string) []netip.Prefix {
	set, err := parsePrefixes(s)
	if err != nil {
		panic(err)
	}
	return set
}

func parsePrefixes(s string) ([]netip.Prefix, error) {
	var set []netip.Prefix
	families := map[bool]bool{}
	for part := range strings.SplitSeq(s, ",") {
		r, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is not a range such as 10.96.0.0/12", part)
		}
		if r != r.Masked() {
			return nil, fmt.Errorf("%s has bits set behind its length: write %s", r, r.Masked())
		}
		if families[r.Addr().Is4()] {
			return nil, fmt.Errorf("two ranges of one family in %q: give at most one IPv4 and one IPv6 range", s)
		}
		if err := checkRange(r); err != nil {
			return nil, err
		}
		families[r.Addr().Is4()] = true
		set = append(set, r)
	}
	return set, nil
}
