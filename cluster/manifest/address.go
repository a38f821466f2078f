package manifest

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parseAddr reads an address as people must write it. The API server takes
// some other spellings of IPv6 addresses too, for the sake of old objects;
// here there are none, and one spelling each keeps equal addresses equal.
func parseAddr(path *field.Path, text string) (netip.Addr, *field.Error) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil && leadingZero(text):
		return addr, field.Invalid(path, text, "an octet has a leading 0, which some software reads as octal; remove the 0")
	case err != nil || addr.Zone() != "":
		return addr, field.Invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
	case addr.Is4In6():
		return addr, field.Invalid(path, text, fmt.Sprintf("must not be an IPv4-mapped IPv6 address; write %s", addr.Unmap()))
	case addr.String() != text:
		return addr, field.Invalid(path, text, fmt.Sprintf("must be in canonical form; write %s", addr))
	}
	return addr, nil
}

// parsePrefix reads an address range, with no bits set beyond its length.
func parsePrefix(path *field.Path, text string) (netip.Prefix, *field.Error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, field.Invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64), without leading 0s")
	case p.Addr().Is4In6():
		return p, field.Invalid(path, text, "must not have an IPv4-mapped IPv6 address")
	case p.Masked().String() != text:
		return p, field.Invalid(path, text, fmt.Sprintf("must be in canonical form; write %s", p.Masked()))
	}
	return p, nil
}

// leadingZero reports whether a dotted address would parse without the zeros
// in front of its octets.
func leadingZero(text string) bool {
	var plain []byte
	start := true
	for i := range len(text) {
		zero := text[i] == '0' && start && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9'
		if !zero {
			plain = append(plain, text[i])
			start = text[i] == '.'
		}
	}
	addr, err := netip.ParseAddr(string(plain))
	return err == nil && addr.Is4() && string(plain) != text
}

// checkEndpointAddr refuses the addresses that no endpoint on a network has.
func checkEndpointAddr(path *field.Path, text string) (errs field.ErrorList) {
	addr, err := parseAddr(path, text)
	if err != nil {
		return field.ErrorList{err}
	}
	switch {
	case addr.IsUnspecified():
		errs = append(errs, field.Invalid(path, text, "may not be unspecified"))
	case addr.IsLoopback():
		errs = append(errs, field.Invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
	case addr.IsLinkLocalUnicast():
		errs = append(errs, field.Invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
	case addr.IsLinkLocalMulticast():
		errs = append(errs, field.Invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/16)"))
	}
	return errs
}

// checkPodAddr refuses besides those addresses that are no single Pod's. In an
// EndpointSlice an API server lets them pass, and the endpoint alone is left out.
func checkPodAddr(path *field.Path, text string) field.ErrorList {
	errs := checkEndpointAddr(path, text)
	if len(errs) > 0 {
		return errs
	}
	switch addr, _ := netip.ParseAddr(text); {
	case addr.IsMulticast():
		return field.ErrorList{field.Invalid(path, text, "may not be a multicast address (224.0.0.0/4, ff00::/8): a Pod has an address of its own")}
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return field.ErrorList{field.Invalid(path, text, "may not be the broadcast address: a Pod has an address of its own")}
	}
	return nil
}

// checkPair validates a list of at most one address, or range, for each family.
func checkPair[T any](path *field.Path, texts []string, parse func(*field.Path, string) (T, *field.Error), is4 func(T) bool) (errs field.ErrorList) {
	var families []bool
	for i, text := range texts {
		v, err := parse(path.Index(i), text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		families = append(families, is4(v))
	}
	if len(texts) > 2 || len(errs) == 0 && len(families) == 2 && families[0] == families[1] {
		errs = append(errs, field.Invalid(path, texts, "may hold no more than one for each IP family"))
	}
	return errs
}
