package conformance

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/test/lab"
)

// facts are what a step says of the lab's node N, beside what it always is.
type facts struct {
	zone          string
	nodePort      []string
	masqueradeAll bool
	mark          uint32
	detection     balance.Detection
}

// usualFacts are those of a node of which nothing is said: node ports answer on
// the address that others know it by, a source in any Pod range is a Pod.
func usualFacts() facts {
	return facts{nodePort: []string{"primary"}, detection: balance.Detection{ClusterRanges: lab.PodRanges()}}
}

// parseFacts reads lines such as "zone east", "nodeport 192.0.2.0/24 localhost",
// "masquerade all", "mark 0x10000", "detect BridgeInterface br0".
func parseFacts(text string) (facts, error) {
	f := usualFacts()
	for _, line := range lines(text) {
		words := strings.Fields(line)
		key, values := words[0], words[1:]
		if len(values) == 0 {
			return f, fmt.Errorf("fact %q says nothing", line)
		}
		switch {
		case key == "zone":
			f.zone = values[0]
		case key == "nodeport":
			f.nodePort = values
		case line == "masquerade all":
			f.masqueradeAll = true
		case key == "mark":
			mark, err := strconv.ParseUint(values[0], 0, 32)
			if err != nil {
				return f, fmt.Errorf("fact %q: %w", line, err)
			}
			f.mark = uint32(mark)
		case key == "detect":
			f.detection = detection(values)
		default:
			return f, fmt.Errorf("unknown fact %q", line)
		}
	}
	return f, nil
}

// detection is how Pods are told: a mode with its link, or "none" for not at all.
func detection(words []string) balance.Detection {
	d := balance.Detection{Mode: balance.Mode(words[0]), ClusterRanges: lab.PodRanges(), NodeRanges: lab.NodeRanges()}
	switch {
	case words[0] == "none":
		return balance.Detection{}
	case len(words) > 1:
		d.Interface = words[1]
	}
	return d
}

// node is the lab's node as the policy sees it, with these facts and the
// addresses it has.
func (f facts) node(own []netip.Addr) (balance.Node, error) {
	n := node()
	n.Zone, n.MasqueradeAll, n.MasqueradeMark = f.zone, f.masqueradeAll, f.mark
	n.Primary = twins("192.0.2.1")
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	var err error
	if n.Addrs, err = balance.NodePortAddrs(f.nodePort, slices.Concat(n.Primary, twins("10.244.0.1"), loopback, own), n.Primary); err != nil {
		return n, err
	}
	return n, f.detection.Apply(&n)
}

// twins returns an address of the lab in both families.
func twins(v4 string) []netip.Addr {
	a := netip.MustParseAddr(v4)
	twin, _ := lab.Twin(a)
	return []netip.Addr{a, twin}
}

// ownAddr is an address that a host gets beside those that the lab gives it.
type ownAddr struct {
	host, link string
	addr       netip.Addr
}

// parseOwnAddr reads "N lo 203.0.113.7".
func parseOwnAddr(text string) (ownAddr, error) {
	words := strings.Fields(text)
	if len(words) != 3 {
		return ownAddr{}, fmt.Errorf("%q: want host, link and address", text)
	}
	a, err := netip.ParseAddr(words[2])
	return ownAddr{words[0], words[1], a}, err
}

// ownAddrs are the addresses of N that the scenario adds, in both families.
func (s scenario) ownAddrs() []netip.Addr {
	var out []netip.Addr
	for _, a := range s.addrs {
		if a.host == "N" {
			out = append(out, twins(a.addr.String())...)
		}
	}
	return out
}
