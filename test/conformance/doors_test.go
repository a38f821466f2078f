package conformance

import (
	"fmt"
	"maps"
	"net/netip"

	"github.com/toyproxy/toyproxy/test/lab"
)

// widenDoors gives a Service the IPv6 half of what the doors other than its
// ClusterIP have: external addresses, those of the load balancer, source ranges.
func widenDoors(doc tree) error {
	spec := doc["spec"].(tree)
	for _, field := range []string{"externalIPs", "loadBalancerSourceRanges"} {
		have, _ := spec[field].([]any)
		for _, text := range have {
			twin, err := twinText(text.(string))
			if err != nil {
				return fmt.Errorf("%s: %w", field, err)
			}
			have = append(have, twin)
		}
		if have != nil {
			spec[field] = have
		}
	}
	status, _ := doc["status"].(tree)
	balancer, _ := status["loadBalancer"].(tree)
	ingress, _ := balancer["ingress"].([]any)
	for _, one := range ingress {
		twin, err := twinText(one.(tree)["ip"].(string))
		if err != nil {
			return fmt.Errorf("ingress: %w", err)
		}
		sixth := maps.Clone(one.(tree))
		sixth["ip"] = twin
		ingress = append(ingress, sixth)
	}
	if ingress != nil {
		balancer["ingress"] = ingress
	}
	return nil
}

// twinText returns the IPv6 half of an address, or of a range of 24 bits, of
// one address or of all.
func twinText(text string) (string, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		if twin, ok := lab.Twin(a); ok {
			return twin.String(), nil
		}
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		if p.Bits() == 0 {
			return "::/0", nil
		}
		twin, ok := lab.Twin(p.Addr())
		if bits, known := map[int]int{24: 64, 32: 128}[p.Bits()]; ok && known {
			return netip.PrefixFrom(twin, bits).String(), nil
		}
	}
	return "", fmt.Errorf("%s has no IPv6 half in the lab", text)
}
