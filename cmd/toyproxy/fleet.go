package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/podnet"
)

// fleet is all nodes of the manifests, each a network namespace of this machine.
type fleet struct {
	src *sourceFlags
	nf  *nodeFlags
	// dir is the state directory of the machine; those of the nodes lie below it.
	dir    string
	source source
	// in is what all nodes have in common: every Pod is placed.
	in   agent.Input
	wire *podnet.Underlay
	// names are the nodes' in order, gone those that there are and should not be.
	names, gone []string
}

// stateBase is the state directory of the machine that a node stands on.
func (f *nodeFlags) stateBase() string { return cmp.Or(f.stateDir, defaultStateDir) }

// memberDir is the state directory of one node of several.
func memberDir(base, name string) string { return filepath.Join(base, "netns", name) }

// membersOf are the nodes that the machine of a state directory has made, as its
// record says; an unreadable one says nothing.
func membersOf(base string) []string {
	names, err := podnet.UnderlayNodes(base)
	if err != nil {
		return nil
	}
	return names
}

// memberScope is where a command works on one node of several.
func memberScope(base, name string) scope {
	return scope{stateDir: memberDir(base, name), netns: name}
}

// meanMember lets --node NAME alone mean the namespace of a node that --all-nodes
// has made, and --netns NAME its Node object.
func meanMember(cmd *cobra.Command) error {
	fl := cmd.Flags()
	node, netns := fl.Lookup("node"), fl.Lookup("netns")
	if node == nil || netns == nil || node.Changed == netns.Changed {
		return nil
	}
	base := defaultStateDir
	if dir := fl.Lookup("state-dir"); dir != nil {
		base = cmp.Or(dir.Value.String(), base)
	}
	given, other := node, "netns"
	if netns.Changed {
		given, other = netns, "node"
	}
	if name := given.Value.String(); slices.Contains(membersOf(base), name) {
		return fl.Set(other, name)
	}
	return nil
}

// within calls do in the namespace of a node; where there is none yet, in a new
// one that is like it would be.
func within(name string, do func() error) error {
	if !exists(filepath.Join(podnet.DefaultNetnsDir, name)) {
		return podnet.DoInNew(do)
	}
	return podnet.Do(name, do)
}

// readFleet reads the manifests and places the Pods.
func readFleet(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags) (*fleet, error) {
	if nf.netns.value != "" || src.node.value != "" {
		return nil, exit(exitUsage, errors.New("--all-nodes takes its nodes from the Node objects: leave out --node and --netns"))
	}
	f := &fleet{src: src, nf: nf, dir: nf.stateBase()}
	kept, made := f.kept(membersOf(f.dir))
	earlier := serviceByName(kept.Services)
	var err error
	if f.source, err = src.source(cmd.InOrStdin(), earlier); err != nil {
		return nil, err
	}
	if f.in, err = f.source.load(cmd.Context()); err != nil {
		return nil, err
	}
	members, err := f.choose(kept, made)
	if err == nil {
		keepAges(f.in.Objects.Services, earlier)
		refuseWorkloads(&f.in)
		err = errors.Join(refuseNothing(f.in, f.source), f.join(members, made))
	}
	if err != nil {
		printProblems(cmd.ErrOrStderr(), f.in.Problems)
		return nil, err
	}
	return f, nil
}

// kept is what the last pass left: the objects of the first node that has some,
// with the Pods of all, and on which node each Pod is.
func (f *fleet) kept(names []string) (kept cluster.Objects, at map[types.NamespacedName]string) {
	at = map[types.NamespacedName]string{}
	var all []*corev1.Pod
	for _, name := range names {
		dir := memberDir(f.dir, name)
		objs, _ := state.OpenLive(dir).Read() // what is damaged is not kept
		if len(kept.Services) == 0 {
			kept = objs
		}
		here := state.OpenLive(dir).Made()
		for _, p := range objs.Pods {
			if here[nameOf(p)] {
				at[nameOf(p)] = name
				all = append(all, p)
			}
		}
	}
	kept.Pods = all
	return kept, at
}

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// join makes the nodes of the Node objects, and places the Pods on them.
func (f *fleet) join(members []podnet.Member, at map[types.NamespacedName]string) error {
	for _, m := range members {
		f.names = append(f.names, m.Name)
	}
	slices.Sort(f.names)
	var err error
	if f.wire, err = podnet.NewUnderlay(podnet.UnderlayConfig{StateDir: f.dir, Members: members}); err != nil {
		return exit(exitBadManifest, err)
	}
	there, err := f.wire.Nodes()
	if err != nil {
		return err
	}
	f.gone = slices.DeleteFunc(there, func(name string) bool { return slices.Contains(f.names, name) })
	found := len(f.in.Problems)
	f.in.Objects.Pods, f.in.Problems = withoutNamesakes(f.in.Objects.Pods, f.names, f.in.Problems)
	f.in.Objects.Pods, f.in.Problems = agent.Spread(f.in.Objects.Pods, f.names, at, f.in.Problems)
	located(f.in.Problems[found:], f.in)
	return nil
}

// own are the Pods that a node makes.
func (f *fleet) own(name string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range f.in.Objects.Pods {
		if p.Status.PodIP == "" && p.Spec.NodeName == name {
			out = append(out, p)
		}
	}
	return out
}

// predict returns the Pods of each node with the addresses they will have.
func (f *fleet) predict(ctx context.Context) (map[string][]*corev1.Pod, error) {
	out := map[string][]*corev1.Pod{}
	for _, name := range f.names {
		err := within(name, func() error {
			runtime, err := newPods(f.src, memberScope(f.dir, name), f.in.Objects, agent.Node{Name: name})
			if err != nil {
				return err
			}
			plan, err := runtime.Plan(ctx, f.own(name))
			out[name] = plan.Pods
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
	}
	return out, nil
}

// live returns the Pods of nodes as they are now.
func live(ctx context.Context, base string, names []string) (map[string][]*corev1.Pod, error) {
	out := map[string][]*corev1.Pod{}
	for _, name := range names {
		err := within(name, func() error {
			runtime, err := newPods(nil, memberScope(base, name), cluster.Objects{}, agent.Node{})
			if err != nil {
				return err
			}
			out[name], err = runtime.List(ctx)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("Pods of node %s: %w", name, err)
		}
	}
	return out, nil
}

// seenFrom are all Pods as one node sees them: its own to be made, those of other
// nodes as they are, without those that have no address yet.
func seenFrom(name string, all []*corev1.Pod, others map[string][]*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range all {
		if p.Status.PodIP != "" || p.Spec.NodeName == name {
			out = append(out, p)
			continue
		}
		i := slices.IndexFunc(others[p.Spec.NodeName], func(o *corev1.Pod) bool { return nameOf(o) == nameOf(p) })
		if i >= 0 && others[p.Spec.NodeName][i].Status.PodIP != "" {
			out = append(out, others[p.Spec.NodeName][i])
		}
	}
	return out
}

// placeOnMembers gives a command that works on one node of several the Pods as
// that node sees them.
func placeOnMembers(ctx context.Context, in *agent.Input, node string, sc scope) error {
	base := filepath.Dir(filepath.Dir(sc.stateDir))
	names := membersOf(base)
	if node == "" || node != sc.netns || !slices.Contains(names, node) {
		return nil
	}
	f := &fleet{dir: base}
	kept, at := f.kept(names)
	var wanted []string
	for _, n := range in.Objects.Nodes {
		wanted = append(wanted, n.Name)
	}
	if len(wanted) == 0 { // manifests that know no nodes are about the one that was named, as it is
		wanted, in.Objects.Nodes = []string{node}, kept.Nodes
	}
	slices.Sort(wanted)
	in.Objects.Pods, in.Problems = agent.Spread(in.Objects.Pods, wanted, at, in.Problems)
	now := map[string][]*corev1.Pod{}
	for _, p := range kept.Pods {
		now[at[nameOf(p)]] = append(now[at[nameOf(p)]], p)
	}
	if os.Geteuid() == 0 { // who may look at the Pods themselves
		var err error
		if now, err = live(ctx, base, slices.DeleteFunc(names, func(n string) bool { return n == node })); err != nil {
			return err
		}
	}
	in.Objects.Pods = seenFrom(node, in.Objects.Pods, now)
	return nil
}

// nodesList is "node-a, node-b".
func nodesList(names []string) string { return strings.Join(names, ", ") }
