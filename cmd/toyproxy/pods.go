package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/podnet"
	"github.com/toyproxy/toyproxy/pods"
)

// podNamespaceName is the network namespace of a Pod that this node made, or
// empty for a Pod that is somebody else's.
func podNamespaceName(d agent.Desired, p *corev1.Pod) string {
	if !d.Makes(p) {
		return ""
	}
	return pods.NetworkName(p.Namespace, p.Name)
}

// newPods builds what makes the Pods of a node.
func newPods(src *sourceFlags, sc scope, objs cluster.Objects, node agent.Node) (*pods.Runtime, error) {
	cfg, domain := podnet.Config{StateDir: sc.stateDir}, ""
	if src != nil {
		domain = src.domain.value
		var err error
		if cfg.PodRanges, err = podRanges(objs.Nodes, node.Name, src.clusterCIDRs.set); err != nil {
			return nil, exit(exitBadManifest, err)
		}
		cfg.ServiceRanges = src.serviceCIDRs.set
		cfg.Forward = len(objs.Services) > 0
		if !hasIPv6() {
			cfg.PodRanges, cfg.ServiceRanges = onlyIPv4(cfg.PodRanges), onlyIPv4(cfg.ServiceRanges)
		}
	}
	network, err := podnet.New(cfg)
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	return pods.New(pods.Config{Net: network, StateDir: sc.stateDir, Program: self,
		HostAddrs: nodeAddresses(), DNSServers: dnsServers(objs.Services), ClusterDomain: domain, Progress: progress})
}

// progress tells people what takes long.
func progress(what string) { fmt.Fprintln(messages{os.Stderr}, what) }

// nodeAddresses are those from which the node reaches the rest of the world, at
// most one a family. No packet is sent: the kernel is asked for a way.
func nodeAddresses() []netip.Addr {
	var out []netip.Addr
	for _, remote := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		conn, err := net.Dial("udp", remote)
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
			out = append(out, a.Addr())
		}
		_ = conn.Close()
	}
	return out
}

// dnsServers are the addresses of cluster DNS: of Service kube-system/kube-dns.
func dnsServers(svcs []*corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, s := range svcs {
		if s.Namespace != metav1.NamespaceSystem || s.Name != "kube-dns" {
			continue
		}
		for _, ip := range s.Spec.ClusterIPs {
			if a, err := netip.ParseAddr(ip); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}

// podRanges are this node's own: spec.podCIDRs of its Node object, else the
// first /24 and /64 of the ranges of all Pods.
func podRanges(nodes []*corev1.Node, name string, all []netip.Prefix) ([]netip.Prefix, error) {
	for _, n := range nodes {
		if n.Name != name || len(n.Spec.PodCIDRs) == 0 {
			continue
		}
		var out []netip.Prefix
		for _, s := range n.Spec.PodCIDRs {
			p, err := netip.ParsePrefix(s)
			if err != nil {
				return nil, fmt.Errorf("Node %s: spec.podCIDRs: %w", name, err)
			}
			out = append(out, p)
		}
		return out, nil
	}
	var out []netip.Prefix
	for _, p := range all {
		bits := 24
		if p.Addr().Is6() {
			bits = 64
		}
		out = append(out, netip.PrefixFrom(p.Addr(), max(bits, p.Bits())))
	}
	return out, nil
}

func hasIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}

func onlyIPv4(ps []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range ps {
		if p.Addr().Is4() {
			out = append(out, p)
		}
	}
	return out
}

// livePods replaces Pods that a node makes by those it has made, and adds those
// that its controllers have: for rules in a Pod's own namespace, where none are made.
func livePods(sc scope, wanted []*corev1.Pod) ([]*corev1.Pod, error) {
	live, err := state.OpenPods(sc.stateDir).List()
	if err != nil {
		return nil, err
	}
	made := map[types.NamespacedName]*corev1.Pod{}
	for _, p := range live {
		made[nameOf(p)] = p
	}
	var out []*corev1.Pod
	for _, p := range wanted {
		if p.Status.PodIP == "" {
			p = made[nameOf(p)]
		}
		if p != nil {
			out = append(out, p)
			delete(made, nameOf(p))
		}
	}
	for _, p := range live {
		if made[nameOf(p)] != nil && metav1.GetControllerOfNoCopy(p) != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// located gives problems their place in the manifests.
func located(problems []cluster.Problem, in agent.Input) []cluster.Problem {
	for i, p := range problems {
		if in.Locate != nil && p.File == "" {
			problems[i].Position = in.Locate(p.Object, p.Field)
		}
	}
	return problems
}

// predictPods gives Pods the addresses that sync would give them, those that
// workloads want too, which it adds to the input.
func predictPods(ctx context.Context, src *sourceFlags, sc scope, in *agent.Input, node agent.Node) ([]*corev1.Pod, []cluster.Problem, error) {
	runtime, err := newPods(src, sc, in.Objects, node)
	if err != nil {
		return nil, nil, err
	}
	if _, err := control(ctx, sc, runtime, in, node, true); err != nil {
		return nil, nil, err
	}
	plan, err := runtime.Plan(ctx, in.Objects.Pods)
	return plan.Pods, append(in.Problems, located(plan.Problems, *in)...), err
}

// hiddenCommands are those that toyproxy starts itself: the process that holds
// a Pod, and the server that stands in for an image.
func hiddenCommands() []*cobra.Command {
	hidden := func(use, short string, run func(context.Context, []string) error) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Hidden: true, DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) },
		}
	}
	return []*cobra.Command{
		hidden("pause", "Hold a Pod", pods.Pause),
		hidden(pods.InitName, "Reap the processes of a Pod", pods.PauseInit),
		hidden(pods.StandInName, "Serve for a container without a command", pods.StandIn),
	}
}
