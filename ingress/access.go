package ingress

import (
	"fmt"
	"net/netip"
	"strings"
)

// Access says which clients a route lets in, by address. The zero value lets in all.
type Access struct {
	// Deny keeps out whom Allow would let in. An empty Allow lets in everybody else.
	Allow, Deny []netip.Prefix
}

// Admits says whether a client is let in; the proxy answers 403 otherwise.
func (a Access) Admits(client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	return !contain(a.Deny, client) && (len(a.Allow) == 0 || contain(a.Allow, client))
}

func contain(ranges []netip.Prefix, addr netip.Addr) bool {
	for _, r := range ranges {
		if r.Contains(addr) {
			return true
		}
	}
	return false
}

// access reads the lists of client ranges. When one cannot be read nobody is let in: it
// returns why.
func (a *annotations) access() (out Access, refused string) {
	for _, name := range []string{"whitelist-source-range", "allowlist-source-range", "denylist-source-range"} {
		text, ok := a.get(name)
		if !ok {
			continue
		}
		ranges, err := parseRanges(text)
		switch {
		case err != nil:
			a.bad(name, "%v: the object's requests get 500, as it is not known whom to let in", err)
			refused = "annotation " + annotationPrefix + name + " cannot be read, and it keeps requests out"
		case name == "denylist-source-range":
			out.Deny = ranges
		default:
			out.Allow = append(out.Allow, ranges...)
		}
	}
	return out, refused
}

// parseRanges reads ranges and addresses with commas between them: at least one.
func parseRanges(text string) (ranges []netip.Prefix, err error) {
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		r, err := netip.ParsePrefix(item)
		if err != nil {
			addr, err := netip.ParseAddr(item)
			if err != nil || addr.Zone() != "" {
				return nil, fmt.Errorf("%q is no range such as 10.0.0.0/8, and no address", item)
			}
			r = netip.PrefixFrom(addr, addr.BitLen())
		}
		if r.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is an IPv4 range in the form of IPv6: write %s", item, r.Addr().Unmap())
		}
		ranges = append(ranges, r.Masked())
	}
	return ranges, nil
}
