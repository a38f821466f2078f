package ingress

import (
	"cmp"
	"net/netip"
	"strings"
)

// String returns the name as objects spell it, and "*" for every host.
func (h Hostname) String() string {
	if h.Name == "" {
		return "*"
	}
	return h.Name
}

// Covers says whether the name stands for a host, which is as NormalizeHost returns it.
func (h Hostname) Covers(host string) bool {
	suffix, wild := h.suffix()
	if !wild {
		return h.Name == "" || h.Name == host
	}
	label, ok := strings.CutSuffix(host, suffix)
	return ok && label != "" && (h.AnyDepth || !strings.Contains(label, "."))
}

// Compare orders the most specific names first: exact ones, then wildcards from
// the longest to the shortest, then every host. It is 0 for equal names alone.
func (h Hostname) Compare(o Hostname) int {
	return cmp.Or(cmp.Compare(o.rank(), h.rank()), cmp.Compare(h.Name, o.Name), boolCompare(h.AnyDepth, o.AnyDepth))
}

// exactRank is above the rank of every wildcard: host names have at most 253 bytes.
const exactRank = 1 << 10

// rank is higher for what is more specific: 0 for every host.
func (h Hostname) rank() int {
	suffix, wild := h.suffix()
	switch {
	case wild:
		return min(len(suffix), exactRank-1)
	case h.Name == "":
		return 0
	}
	return exactRank
}

// suffix returns ".example" of "*.example", and whether the name is a wildcard.
func (h Hostname) suffix() (string, bool) {
	if rest, ok := strings.CutPrefix(h.Name, "*."); ok {
		return "." + rest, true
	}
	return "", false
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// NormalizeHost returns the host that a Host header, an :authority or a server
// name of TLS asks for: in lower case, without port, without the dot that may end
// it, IPv6 literals without brackets. It returns "" when there is none or when the
// text is no host: only what stands for every host covers that.
func NormalizeHost(sent string) string {
	if strings.HasPrefix(sent, "[") {
		return literal(sent)
	}
	host, port, _ := strings.Cut(sent, ":")
	if !isPort(port) {
		return ""
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > 253 {
		return ""
	}
	for i := range len(host) {
		if !isHostChar(host[i]) {
			return ""
		}
	}
	return strings.ToLower(host)
}

// isHostChar: what may stand in a reg-name of RFC 3986, 3.2.2, without escapes and the
// star, and bytes of other alphabets.
func isHostChar(c byte) bool {
	return c >= 0x80 || c != '*' && c != ':' && c != '@' && isPathChar(c)
}

// literal reads "[fd00::1]:80".
func literal(sent string) string {
	text, port, ok := strings.Cut(sent[1:], "]")
	addr, err := netip.ParseAddr(text)
	if !ok || err != nil || addr.Zone() != "" || (port != "" && port[0] != ':') || !isPort(strings.TrimPrefix(port, ":")) {
		return ""
	}
	return addr.String()
}

// isPort: digits, or nothing at all ("a.example:" has the default port).
func isPort(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return len(text) <= 5
}
