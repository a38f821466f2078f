package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/podnet"
)

// linkAddresses asks the kernel for the addresses of this namespace's links.
// Those of IPv6 that hold on one link only are left out: every link has one, and
// links come and go with Pods. Virtual addresses of backend ipvs are no link's.
func linkAddresses() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this node: %w", err)
	}
	var out []netip.Addr
	for _, a := range found {
		p, err := netip.ParsePrefix(a.String())
		if addr := p.Addr().Unmap(); err == nil && !(addr.Is6() && addr.IsLinkLocalUnicast()) {
			out = append(out, addr)
		}
	}
	return out, nil
}

// sight is where a command learns which addresses a node has.
type sight int

const (
	// fromKernel: the command works on the node, in its namespace.
	fromKernel sight = iota
	// fromObjects: the command only says what would be.
	fromObjects
	// fromPod: the command works in the namespace of a Pod of the node.
	fromPod
)

// sight is that of a command which on a node would have another one.
func (sc scope) sight(onNode sight) sight {
	if sc.pod {
		return fromPod
	}
	return onNode
}

// registerAddrs adds the flag of commands that need not run on the node.
func (f *sourceFlags) registerAddrs(cmd *cobra.Command) {
	cmd.Flags().Var(&f.addrs, "node-addresses", "addresses that the node has (default: those of the Node object, else of this machine)")
}

// furnishNode completes what agentNode knows: Pods, addresses and doors.
func (f *sourceFlags) furnishNode(n *agent.Node, objs cluster.Objects, from sight) error {
	pods, err := podRanges(objs.Nodes, n.Name, f.clusterCIDRs.set)
	if err != nil {
		return exit(exitBadManifest, err)
	}
	n.Primary = balance.PrimaryAddrs(objs.Nodes, n.Name)
	own, err := f.ownAddresses(n, objs.Nodes, from)
	if err != nil {
		return err
	}
	if len(n.Primary) == 0 && from != fromPod {
		n.Primary = nodeAddresses()
	}
	return f.openDoors(n, objs.Services, append(own, podnet.Config{PodRanges: pods}.Gateways()...), pods)
}

// ownAddresses returns the addresses that the node has, but for those of its
// bridge, which may not be there yet.
func (f *sourceFlags) ownAddresses(n *agent.Node, nodes []*corev1.Node, from sight) ([]netip.Addr, error) {
	if len(f.addrs) > 0 {
		return f.addrs, nil
	}
	known := balance.AddrsOf(nodes, n.Name)
	if from == fromPod || from == fromObjects && len(known) > 0 {
		return known, nil
	}
	own, err := linkAddresses()
	if from == fromObjects {
		return own, nil // what cannot be known here is left out of what is only shown
	}
	return own, err
}

// doorProblems warns of NodePorts that nobody reaches because of the flags.
func (f *sourceFlags) doorProblems(n agent.Node, services []*corev1.Service) []cluster.Problem {
	anyPort := slices.ContainsFunc(services, func(s *corev1.Service) bool {
		return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 })
	})
	if len(n.Addrs) == 0 && anyPort {
		return []cluster.Problem{{Field: "--nodeport-addresses", Warning: true,
			Message: fmt.Sprintf("NodePorts answer nowhere, because no address of this node is wanted by %q: write a range that holds one, or leave the flag out", f.doors.nodePorts.String())}}
	}
	return loopbackProblems(n)
}

// loopbackProblems warns of NodePorts that hang instead of being refused: the
// kernel drops what comes from loopback unless it is told not to, and toyproxy
// does not tell it, because it would open loopback to the neighbours.
func loopbackProblems(n agent.Node) []cluster.Problem {
	if !slices.ContainsFunc(n.Addrs, netip.Addr.IsLoopback) || routesLoopback() {
		return nil
	}
	return []cluster.Problem{{Field: "--nodeport-addresses", Warning: true,
		Message: "NodePorts on 127.0.0.1 get no answer while net.ipv4.conf.all.route_localnet is 0, and never on ::1: " +
			"set it to 1 if no neighbour may send to this node's loopback addresses, or leave localhost out"}}
}

func routesLoopback() bool {
	text, err := os.ReadFile("/proc/sys/net/ipv4/conf/all/route_localnet")
	return err == nil && strings.TrimSpace(string(text)) == "1"
}

// addrList is a flag that holds addresses.
type addrList []netip.Addr

// Set implements pflag.Value.
func (l *addrList) Set(v string) error {
	var out []netip.Addr
	for text := range strings.SplitSeq(v, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil || a.Is4In6() || a.Zone() != "" {
			return fmt.Errorf("%q is not an address such as 192.0.2.1", text)
		}
		out = append(out, a)
	}
	*l = out
	return nil
}

// String implements pflag.Value.
func (l *addrList) String() string {
	parts := make([]string, len(*l))
	for i, a := range *l {
		parts[i] = a.String()
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (l *addrList) Type() string { return "addresses" }
