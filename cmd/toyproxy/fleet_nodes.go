package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/podnet"
	"github.com/toyproxy/toyproxy/pods"
)

// choose finds the Node objects that can be nodes of this machine together. What
// is wrong with the others becomes problems; of a Node that was good in the last
// pass that version stays, if it can.
func (f *fleet) choose(kept cluster.Objects, made map[types.NamespacedName]string) ([]podnet.Member, error) {
	if len(f.in.Objects.Nodes) == 0 && agent.CountErrors(f.in.Problems) == 0 {
		return nil, exit(exitBadManifest, fmt.Errorf("%s has no Node object, so there is no node to make: write one for each, as examples/multi-node does, or leave --all-nodes out", f.source.description))
	}
	wire, err := podnet.NewUnderlay(podnet.UnderlayConfig{StateDir: f.dir})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range slices.Concat(f.in.Objects.Nodes, kept.Nodes) {
		names = append(names, n.Name)
	}
	foreign, err := wire.Foreign(names)
	if err != nil {
		return nil, err
	}
	s := screening{foreign: foreign, kept: kept.Nodes, services: f.src.serviceCIDRs.set}
	members := s.screen(&f.in)
	if !f.src.strict {
		f.in = agent.KeepLastGood(f.in, kept, func(p *corev1.Pod) bool { return made[nameOf(p)] != "" })
		members = s.screen(&f.in)
	}
	if len(members) == 0 {
		return nil, exit(exitBadManifest, fmt.Errorf("%s has no Node object that is good, so there is no node to make: nothing is done", f.source.description))
	}
	return members, nil
}

// screening is what Node objects are held against beside each other.
type screening struct {
	// foreign are names of network namespaces that somebody else has made.
	foreign  []string
	kept     []*corev1.Node
	services []netip.Prefix
}

// screen leaves out the Nodes that cannot be nodes, with a problem for each fault.
// Of two that cannot be together the older stays, else the first by name.
func (s screening) screen(in *agent.Input) []podnet.Member {
	nodes := slices.SortedStableFunc(slices.Values(in.Objects.Nodes), func(a, b *corev1.Node) int {
		return cmp.Or(s.born(a)-s.born(b), cmp.Compare(a.Name, b.Name))
	})
	found := len(in.Problems)
	in.Problems = slices.Clone(in.Problems)
	var members []podnet.Member
	bad := map[string]bool{}
	for _, n := range nodes {
		m, faults := memberOf(n)
		faults = append(faults, m.Faults(members, s.services)...)
		if slices.Contains(s.foreign, n.Name) {
			faults = append(faults, podnet.Fault{Field: "metadata.name", Message: fmt.Sprintf(
				"network namespace %s exists and is no node of this machine: give the Node (or the Pod) of that name another one, or remove it: ip netns del %s", n.Name, n.Name)})
		}
		for _, fault := range faults {
			in.Problems = append(in.Problems, cluster.Problem{Object: cluster.MakeRef(cluster.Node, "", n.Name), Field: fault.Field, Message: fault.Message + "; the Node is left out"})
		}
		if bad[n.Name] = len(faults) > 0; !bad[n.Name] {
			members = append(members, m)
		}
	}
	in.Objects.Nodes = slices.DeleteFunc(slices.Clone(in.Objects.Nodes), func(n *corev1.Node) bool { return bad[n.Name] })
	located(in.Problems[found:], *in)
	return members
}

// born is when a Node was made, in seconds since 1970, by itself or by the last
// pass; one of which neither knows is the youngest.
func (s screening) born(n *corev1.Node) int {
	for _, k := range append([]*corev1.Node{n}, s.kept...) {
		if k.Name == n.Name && !k.CreationTimestamp.IsZero() {
			return int(k.CreationTimestamp.Unix())
		}
	}
	return 1 << 40
}

// memberOf is the node of a Node object. Without an address, or without a range
// for its Pods, the others could not reach it.
func memberOf(n *corev1.Node) (m podnet.Member, faults []podnet.Fault) {
	m = podnet.Member{Name: n.Name, Addrs: balance.PrimaryAddrs([]*corev1.Node{n}, n.Name)}
	if len(m.Addrs) == 0 {
		faults = append(faults, podnet.Fault{Field: "status.addresses", Message: "the Node has no address: write one, status: {addresses: [{type: InternalIP, address: 192.168.60.11}]}"})
	}
	if len(n.Spec.PodCIDRs) == 0 {
		faults = append(faults, podnet.Fault{Field: "spec.podCIDRs", Message: "the Node has no range for its Pods: write one, spec: {podCIDRs: [10.244.1.0/24]}"})
	}
	for _, text := range n.Spec.PodCIDRs {
		r, err := netip.ParsePrefix(text)
		if err != nil {
			faults = append(faults, podnet.Fault{Field: "spec.podCIDRs", Message: err.Error()})
			continue
		}
		m.PodRanges = append(m.PodRanges, r)
	}
	if !hasIPv6() {
		m.PodRanges = onlyIPv4(m.PodRanges)
		m.Addrs = slices.DeleteFunc(m.Addrs, netip.Addr.Is6)
	}
	return m, faults
}

// refuseWorkloads reports the workloads of an input: who keeps them keeps one node.
func refuseWorkloads(in *agent.Input) {
	found := len(in.Problems)
	in.Problems = slices.Clone(in.Problems)
	refuse := func(kind cluster.Kind, obj metav1.Object) {
		in.Problems = append(in.Problems, cluster.Problem{Object: cluster.MakeRef(kind, obj.GetNamespace(), obj.GetName()),
			Message: "its Pods are not made with --all-nodes: a workload is kept on one node; write the Pods themselves, or sync that node by --node"})
	}
	for _, d := range in.Objects.Deployments {
		refuse(cluster.Deployment, d)
	}
	for _, rs := range in.Objects.ReplicaSets {
		refuse(cluster.ReplicaSet, rs)
	}
	for _, s := range in.Objects.StatefulSets {
		refuse(cluster.StatefulSet, s)
	}
	for _, d := range in.Objects.DaemonSets {
		refuse(cluster.DaemonSet, d)
	}
	located(in.Problems[found:], *in)
}

// withoutNamesakes leaves out Pods whose network namespace would have the name of
// a node's. The Pod and not the Node, with which all of its Pods would go.
func withoutNamesakes(all []*corev1.Pod, nodes []string, problems []cluster.Problem) ([]*corev1.Pod, []cluster.Problem) {
	var out []*corev1.Pod
	for _, p := range all {
		if name := pods.NetworkName(p.Namespace, p.Name); p.Status.PodIP == "" && slices.Contains(nodes, name) {
			problems = append(problems, cluster.Problem{Object: cluster.MakeRef(cluster.Pod, p.Namespace, p.Name), Field: "metadata.name",
				Message: fmt.Sprintf("network namespace %s is that of Node %s, the Pod is not made: give one of them another name", name, name)})
			continue
		}
		out = append(out, p)
	}
	return out, problems
}
