package podnet

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/toyproxy/toyproxy/dataplane"
)

// The defaults of Config.
const (
	DefaultBridge      = "toybr0"
	DefaultMTU         = 1500
	DefaultStateDir    = "/run/toyproxy"
	DefaultNetnsDir    = "/run/netns"
	DefaultEtcNetnsDir = "/etc/netns"
)

// Config says what the network of a node looks like. Each node needs a state
// directory of its own.
type Config struct {
	// Bridge is the name of the bridge, at most 15 bytes. Empty: DefaultBridge.
	Bridge string
	// PodRanges are the ranges Pod addresses are taken from, at most one a
	// family. The first address of each is the gateway, on the bridge.
	PodRanges []netip.Prefix
	// ServiceRanges get a route to the bridge, so that a process of a node
	// without default route can dial a ClusterIP, and so that no packet to one
	// leaves by the default route.
	ServiceRanges []netip.Prefix
	// Forward says that the node forwards although it has no Pods: its frontends
	// may lead to endpoints elsewhere. A node with Pods always does.
	Forward bool
	// MTU of the bridge and the Pods' links, in bytes. 0: DefaultMTU.
	MTU int
	// StateDir holds the record podnet.json and the journal of sysctls.
	StateDir string
	// NetnsDir holds the named namespaces. `ip netns` knows only the default.
	NetnsDir string
	// EtcNetnsDir holds NAME/resolv.conf and NAME/hosts. `ip netns exec` knows
	// only the default.
	EtcNetnsDir string
}

// Node makes the networks of the Pods of one node. Its methods work in the
// network namespace of the calling thread.
type Node struct {
	cfg Config
}

// New checks a configuration, fills in defaults and returns the node.
func New(cfg Config) (*Node, error) {
	cfg.Bridge = cmp.Or(cfg.Bridge, DefaultBridge)
	cfg.MTU = cmp.Or(cfg.MTU, DefaultMTU)
	cfg.StateDir = cmp.Or(cfg.StateDir, DefaultStateDir)
	cfg.NetnsDir = cmp.Or(cfg.NetnsDir, DefaultNetnsDir)
	cfg.EtcNetnsDir = cmp.Or(cfg.EtcNetnsDir, DefaultEtcNetnsDir)
	if err := checkLinkName(cfg.Bridge); err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	if err := checkRanges(cfg); err != nil {
		return nil, err
	}
	return &Node{cfg: cfg}, nil
}

// Path is the file of a namespace: where `ip netns` expects it.
func (n *Node) Path(name string) string { return filepath.Join(n.cfg.NetnsDir, name) }

func checkRanges(cfg Config) error {
	seen := map[dataplane.Family]netip.Prefix{}
	least := 68 // RFC 791
	for _, r := range cfg.PodRanges {
		f := dataplane.FamilyOf(r.Addr())
		if r != r.Masked() {
			return fmt.Errorf("Pod range %s: has bits set behind its prefix; write %s", r, r.Masked())
		}
		if other, ok := seen[f]; ok {
			return fmt.Errorf("Pod ranges %s and %s: a node has one range a family", other, r)
		}
		if f.Bits()-r.Bits() < 2 {
			return fmt.Errorf("Pod range %s: too small: it holds no address beside the gateway", r)
		}
		if f == dataplane.IPv6 {
			least = 1280 // RFC 8200
		}
		seen[f] = r
	}
	for _, r := range cfg.ServiceRanges {
		for _, p := range cfg.PodRanges {
			if r.Overlaps(p) {
				return fmt.Errorf("Service range %s overlaps Pod range %s: choose others", r, p)
			}
		}
	}
	if cfg.MTU < least || cfg.MTU > 65535 {
		return fmt.Errorf("MTU %d: must be from %d to 65535", cfg.MTU, least)
	}
	return nil
}

// Gateways returns the addresses that the bridge has once there is one.
func (c Config) Gateways() []netip.Addr {
	var out []netip.Addr
	for _, r := range c.PodRanges {
		out = append(out, gateway(r))
	}
	return out
}

// gateway is the address of the bridge in a range: its first.
func gateway(r netip.Prefix) netip.Addr { return r.Masked().Addr().Next() }

// host is the prefix that holds one address alone.
func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
