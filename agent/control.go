package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/controller"
	"github.com/toyproxy/toyproxy/pods"
)

// Control has the controllers decide about the Pods of a node.
type Control struct {
	// Workloads keeps what is decided; nil: there are no workloads.
	Workloads Workloads
	// Now, MaxActions and Suffix are those of controller.Input.
	Now        time.Time
	MaxActions int
	Suffix     func() string
}

// Decision is what they came to.
type Decision struct {
	// Pods are those that controllers want, without status.
	Pods []*corev1.Pod
	// Acts is how many Pods are to be made or ended for that.
	Acts int
	// Bounded and Again are those of controller.Result.
	Bounded bool
	Again   time.Time
	// Rolling is how many workloads are not what they are to be yet.
	Rolling  int
	Problems []cluster.Problem
}

// Decide is one pass over the workloads of a setting and the Pods that were seen.
// What was decided is kept already, but for the Pods. When what is wanted cannot be
// read, the Pods there are stay.
func (c Control) Decide(ctx context.Context, s Setting, seen []pods.Seen) (Decision, error) {
	if c.Workloads == nil {
		return Decision{}, nil
	}
	in, problems, err := c.Workloads.Merge(ctx, s.Input.Objects)
	d := Decision{Problems: place(problems, s.Input.Locate)}
	if err != nil {
		d.Pods = ownedPods(seen, nil)
		return d, fmt.Errorf("workloads: %w", err)
	}
	in.Pods = nil
	for _, s := range seen {
		if s.Pod != nil && (s.State == pods.Living || s.State == pods.Unborn) {
			in.Pods = append(in.Pods, s.Pod)
		}
	}
	in.Node, in.Now, in.MaxActions, in.Suffix = s.Node.Name, c.Now, c.MaxActions, c.Suffix
	in.Fixed, in.NodeLabels = Made(s.Input.Objects.Pods), labelsOf(s)
	res := controller.Reconcile(in)
	for _, a := range res.Actions {
		if _, ok := a.Object.(*corev1.Pod); ok && a.Op != controller.Update {
			d.Acts++
		}
	}
	d.Problems = append(d.Problems, place(res.Problems, s.Input.Locate)...)
	d.Pods, d.Bounded, d.Again, d.Rolling = ownedPods(seen, res.Actions), res.Bounded, res.Again, rolling(in, res)
	if err := c.Workloads.Keep(ctx, res); err != nil {
		return d, fmt.Errorf("workloads: %w", err)
	}
	return d, nil
}

// labelsOf are those of this node's object.
func labelsOf(s Setting) map[string]string {
	for _, n := range s.Input.Objects.Nodes {
		if n.Name == s.Node.Name {
			return n.Labels
		}
	}
	return nil
}

// ownedPods are the Pods that controllers want: those there are, with what the
// actions make of them, and new ones. Their status is left out. Pure.
func ownedPods(seen []pods.Seen, actions []controller.Action) []*corev1.Pod {
	next := map[types.NamespacedName]*corev1.Pod{}
	for _, s := range seen {
		fit := s.State == pods.Living || s.State == pods.Unborn
		if fit && s.Pod != nil && !s.Ending() && metav1.GetControllerOf(s.Pod) != nil {
			next[s.Name] = s.Pod
		}
	}
	for _, a := range actions {
		p, ok := a.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		if a.Op == controller.Delete {
			delete(next, name)
		} else {
			next[name] = p
		}
	}
	out := make([]*corev1.Pod, 0, len(next))
	for _, p := range next {
		out = append(out, asWanted([]*corev1.Pod{p}, func(*corev1.Pod) bool { return true })...)
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cluster.MakeRef(cluster.Pod, a.Namespace, a.Name).Compare(cluster.MakeRef(cluster.Pod, b.Namespace, b.Name))
	})
	return out
}

// rolling counts the workloads that are not what they are to be yet.
func rolling(in controller.Input, res controller.Result) int {
	n := 0
	for _, d := range latest(in.Deployments, res.Deployments) {
		s := d.Status
		n += oneUnless(all(wantedOf(d.Spec.Replicas), s.Replicas, s.UpdatedReplicas, s.AvailableReplicas))
	}
	for _, d := range latest(in.StatefulSets, res.StatefulSets) {
		s := d.Status
		n += oneUnless(all(wantedOf(d.Spec.Replicas), s.Replicas, s.UpdatedReplicas, s.AvailableReplicas))
	}
	for _, d := range latest(in.DaemonSets, res.DaemonSets) {
		s := d.Status
		n += oneUnless(all(s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.UpdatedNumberScheduled, s.NumberAvailable))
	}
	for _, d := range latest(in.ReplicaSets, res.ReplicaSets) {
		n += oneUnless(all(wantedOf(d.Spec.Replicas), d.Status.Replicas, d.Status.AvailableReplicas))
	}
	return n
}

// latest returns objects, with those in place of them that were decided upon.
func latest[T metav1.Object](before, decided []T) []T {
	out := slices.Clone(before)
	for i, obj := range out {
		for _, d := range decided {
			if d.GetName() == obj.GetName() && d.GetNamespace() == obj.GetNamespace() {
				out[i] = d
			}
		}
	}
	return out
}

func wantedOf(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// all tells whether all numbers are that one.
func all(want int32, have ...int32) bool {
	return !slices.ContainsFunc(have, func(n int32) bool { return n != want })
}

func oneUnless(ok bool) int {
	if ok {
		return 0
	}
	return 1
}
