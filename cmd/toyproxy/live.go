package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/endpoints"
	"github.com/toyproxy/toyproxy/pods"
)

// readState returns the live objects that the last sync left; the error names
// damaged files, the objects are good all the same.
func readState(sc scope) (cluster.Objects, error) { return state.OpenLive(sc.stateDir).Read() }

// serviceByName looks Services up by name; nil for one that is not there.
func serviceByName(svcs []*corev1.Service) func(types.NamespacedName) *corev1.Service {
	byName := make(map[types.NamespacedName]*corev1.Service, len(svcs))
	for _, s := range svcs {
		byName[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = s
	}
	return func(n types.NamespacedName) *corev1.Service { return byName[n] }
}

// keepAges gives Services the creation time that an earlier pass noted: the
// older of two that claim the same address wins.
func keepAges(svcs []*corev1.Service, earlier func(types.NamespacedName) *corev1.Service) {
	for _, s := range svcs {
		old := earlier(types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		if old != nil && s.CreationTimestamp.IsZero() {
			s.CreationTimestamp = old.CreationTimestamp
		}
	}
}

// recorder implements agent.Recorder with the state directory.
type recorder struct {
	sc   scope
	last state.Last
}

// Record writes the live objects, and what is wrong with the input.
func (r recorder) Record(_ context.Context, d agent.Desired) error {
	if err := state.WriteLast(r.sc.rulesDir(), r.last); err != nil || r.sc.pod {
		return err
	}
	o := d.Objects
	o.EndpointSlices = d.Slices
	return errors.Join(state.WriteProblems(r.sc.stateDir, d.Problems),
		state.OpenLive(r.sc.stateDir).Write(o, d.Makes, time.Now().Truncate(time.Second)))
}

// noState is a path that never exists: the state of a fresh node.
const noState = "/proc/self/no-state"

// readable tells whether this user may look into a directory, or it is not there.
func readable(dir string) bool {
	_, err := os.ReadDir(dir)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// isPodNamespace tells whether a namespace is that of a Pod which the node of
// the state directory runs.
func isPodNamespace(stateDir, name string) bool {
	live, _ := state.OpenPods(stateDir).List()
	return slices.ContainsFunc(live, func(p *corev1.Pod) bool { return pods.NetworkName(p.Namespace, p.Name) == name })
}

// desired resolves what a node should look like without touching the kernel:
// from the manifests, or from what the last sync left.
func desired(ctx context.Context, stdin io.Reader, src *sourceFlags, sc scope, live bool) (agent.Desired, error) {
	if live {
		return asLeft(ctx, src, sc)
	}
	return asManifested(ctx, stdin, src, sc)
}

// asLeft resolves what the last sync left.
func asLeft(ctx context.Context, src *sourceFlags, sc scope) (agent.Desired, error) {
	kept, err := readState(sc)
	if err = skipDamaged(err); err != nil {
		return agent.Desired{}, err
	}
	in := agent.Input{Objects: kept}
	node, err := src.agentNode(&in, sc.sight(fromObjects))
	if err != nil {
		return agent.Desired{}, err
	}
	living := current(ctx, sc, in.Objects.Pods)
	made := in.Objects.EndpointSlices
	in.Objects.EndpointSlices = slices.DeleteFunc(slices.Clone(made), madeSlice)
	d := agent.Resolve(in, node, living)
	d.Made = state.OpenLive(sc.stateDir).Made()
	date(d.Slices, made)
	return d, nil
}

// skipDamaged tells of damaged state files, and returns what else is wrong: one file
// that holds no object hides no other.
func skipDamaged(err error) error {
	damaged, other := state.Damaged(err)
	for _, d := range damaged {
		progress("warning: " + d.Error())
	}
	return other
}

// asManifested resolves what the next sync would make of the manifests.
func asManifested(ctx context.Context, stdin io.Reader, src *sourceFlags, sc scope) (agent.Desired, error) {
	if !readable(sc.stateDir) {
		sc.stateDir = noState
	}
	kept, _ := readState(sc) // damaged files are told by sync, which mends them
	earlier := serviceByName(kept.Services)
	s, err := src.source(stdin, earlier)
	if err != nil {
		return agent.Desired{}, err
	}
	in, err := s.load(ctx)
	if err != nil {
		return agent.Desired{}, err
	}
	keepAges(in.Objects.Services, earlier)
	if err := placeOnMembers(ctx, &in, src.node.value, sc); err != nil {
		return agent.Desired{}, err
	}
	node, err := src.agentNode(&in, sc.sight(fromObjects))
	if err != nil {
		return agent.Desired{}, err
	}
	if sc.pod { // its Pods are the node's, and are made there
		if in.Objects.Pods, err = livePods(sc, in.Objects.Pods); err != nil {
			return agent.Desired{}, err
		}
		return agent.Resolve(in, node, in.Objects.Pods), nil
	}
	living, problems, err := predictPods(ctx, src, sc, &in, node)
	if err != nil {
		return agent.Desired{}, err
	}
	in.Problems = problems
	return agent.Resolve(in, node, living), nil
}

// current replaces the Pods of this node by what they are now, for users who may
// look at processes: a Pod whose pause process was killed cannot say so itself.
func current(ctx context.Context, sc scope, kept []*corev1.Pod) []*corev1.Pod {
	if os.Geteuid() != 0 {
		return kept
	}
	runtime, err := newPods(nil, sc, cluster.Objects{}, agent.Node{})
	if err != nil {
		return kept
	}
	now, err := runtime.List(ctx)
	if err != nil {
		return kept
	}
	byName := map[string]*corev1.Pod{}
	for _, p := range now {
		byName[p.Namespace+"/"+p.Name] = p
	}
	out := slices.Clone(kept)
	for i, p := range out {
		if n := byName[p.Namespace+"/"+p.Name]; n != nil {
			out[i] = n
		}
	}
	return out
}

// madeSlice tells whether a slice was made from a selector by this program:
// such slices are resolved anew.
func madeSlice(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelManagedBy] == endpoints.ManagedBy
}

// date gives slices the creation times that were noted for them.
func date(resolved, noted []*discoveryv1.EndpointSlice) {
	times := make(map[types.NamespacedName]metav1.Time, len(noted))
	for _, s := range noted {
		times[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = s.CreationTimestamp
	}
	for i, s := range resolved {
		if t, ok := times[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]; ok && s.CreationTimestamp.IsZero() {
			s = s.DeepCopy()
			s.CreationTimestamp = t
			resolved[i] = s
		}
	}
}
