package forward

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// The node's resolvers, and those that systemd-resolved asks where only itself is
// named in the former.
const (
	NodeFile     = "/etc/resolv.conf"
	ResolvedFile = "/run/systemd/resolve/resolv.conf"
)

// dnsPort is where resolvers answer when nothing else is said.
const dnsPort = 53

// ErrOnlyLoopback says that a file names only resolvers of the node's own, which a
// server in a network namespace of its own cannot ask, and one on the node may be.
var ErrOnlyLoopback = errors.New("names only resolvers on loopback addresses")

// ReadResolvConf returns the resolvers that a file names (see resolv.conf(5)). Where
// those of the node are all on loopback addresses, they are those that systemd-resolved
// asks, if it is there; else the error is ErrOnlyLoopback.
func ReadResolvConf(path string) ([]netip.AddrPort, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("resolvers: %w", err)
	}
	upstreams := parseResolvConf(string(text))
	if len(upstreams) == 0 {
		return nil, fmt.Errorf("resolvers: %s names none", path)
	}
	for _, u := range upstreams {
		if !u.Addr().IsLoopback() {
			return upstreams, nil
		}
	}
	if path == NodeFile {
		if upstreams, err := ReadResolvConf(ResolvedFile); err == nil {
			return upstreams, nil
		}
	}
	return nil, fmt.Errorf("resolvers: %s %w", path, ErrOnlyLoopback)
}

// parseResolvConf reads the addresses of name servers.
func parseResolvConf(text string) []netip.AddrPort {
	var out []netip.AddrPort
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			out = append(out, netip.AddrPortFrom(addr, dnsPort))
		}
	}
	return out
}

// ParseUpstream reads ADDRESS or ADDRESS:PORT.
func ParseUpstream(text string) (netip.AddrPort, error) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at, nil
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address of a resolver, such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53", text)
	}
	return netip.AddrPortFrom(addr, dnsPort), nil
}
