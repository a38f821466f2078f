package controller

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Of restricts the input to one Deployment, StatefulSet, DaemonSet or ReplicaSet
// that nobody owns: what it has, what it could adopt, and the object itself if it is
// there. Without it, Reconcile ends all that it had. The cost is one look at every
// Pod.
func (in Input) Of(owner cluster.Ref) Input {
	owner = in.topmost(owner)
	out := in
	out.Deployments, out.StatefulSets = keep(in.Deployments, cluster.Deployment, owner), keep(in.StatefulSets, cluster.StatefulSet, owner)
	out.DaemonSets = keep(in.DaemonSets, cluster.DaemonSet, owner)
	out.ReplicaSets, out.OwnedSets = nil, out.setsOf(owner)
	out.Revisions = slices.DeleteFunc(slices.Clone(in.Revisions), func(r *appsv1.ControllerRevision) bool { return !isOwner(r, owner) })
	out.Pods = out.podsOf(owner)
	return out
}

// setsOf are the ReplicaSets of an input that an owner has or could adopt, and that
// which it is itself.
func (in Input) setsOf(owner cluster.Ref) []*appsv1.ReplicaSet {
	adopters := Input{Deployments: in.Deployments}.selectors()
	all := slices.Concat(in.OwnedSets, in.ReplicaSets)
	return slices.DeleteFunc(all, func(rs *appsv1.ReplicaSet) bool {
		orphan := metav1.GetControllerOfNoCopy(rs) == nil && rs.Namespace == owner.Namespace
		itself := owner.Kind == cluster.ReplicaSet && named(rs, owner)
		return !isOwner(rs, owner) && !itself && !(orphan && matchesAny(adopters, rs.Labels))
	})
}

// podsOf are the Pods of an input that an owner or the sets of the input have, or
// could adopt.
func (in Input) podsOf(owner cluster.Ref) []*corev1.Pod {
	mine := map[types.UID]bool{}
	for _, rs := range in.OwnedSets {
		mine[UID(cluster.ReplicaSet, rs)] = true
	}
	selectors := in.selectors()
	var out []*corev1.Pod
	for _, pod := range in.Pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		orphan := ref == nil && pod.Namespace == owner.Namespace
		if isOwner(pod, owner) || ref != nil && mine[ref.UID] || orphan && matchesAny(selectors, pod.Labels) {
			out = append(out, pod)
		}
	}
	return out
}

// topmost is the Deployment of a ReplicaSet that one owns, else the owner itself.
func (in Input) topmost(owner cluster.Ref) cluster.Ref {
	for _, rs := range in.OwnedSets {
		if top := ownerRef(rs); owner.Kind == cluster.ReplicaSet && named(rs, owner) && top.Kind != "" {
			return top
		}
	}
	return owner
}

// keep returns the object of that name, alone.
func keep[T metav1.Object](objs []T, kind cluster.Kind, ref cluster.Ref) []T {
	if ref.Kind != kind {
		return nil
	}
	for _, obj := range objs {
		if named(obj, ref) {
			return []T{obj}
		}
	}
	return nil
}

func named(obj metav1.Object, ref cluster.Ref) bool {
	return obj.GetNamespace() == ref.Namespace && obj.GetName() == ref.Name
}

// isOwner tells whether the owner controls the object.
func isOwner(obj metav1.Object, owner cluster.Ref) bool {
	return metav1.GetControllerOfNoCopy(obj) != nil && ownerRef(obj) == owner
}

// selectors of all that may adopt Pods. Those of Deployments include the ones of
// their sets.
func (in Input) selectors() []labels.Selector {
	var specs []*metav1.LabelSelector
	for _, d := range in.Deployments {
		specs = append(specs, d.Spec.Selector)
	}
	for _, rs := range in.OwnedSets {
		specs = append(specs, rs.Spec.Selector)
	}
	for _, s := range in.StatefulSets {
		specs = append(specs, s.Spec.Selector)
	}
	for _, d := range in.DaemonSets {
		specs = append(specs, d.Spec.Selector)
	}
	var out []labels.Selector
	for _, spec := range specs {
		if sel, err := parsed(spec); err == nil {
			out = append(out, sel)
		}
	}
	return out
}

func matchesAny(selectors []labels.Selector, set labels.Set) bool {
	return slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(set) })
}
