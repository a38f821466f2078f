package controller

import (
	"slices"

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
	out.ReplicaSets, out.OwnedSets, out.Revisions, out.Pods = nil, nil, nil, nil
	mine := map[types.UID]bool{}
	adopters := out.adopters()
	for _, rs := range slices.Concat(in.OwnedSets, in.ReplicaSets) {
		orphan := metav1.GetControllerOfNoCopy(rs) == nil && rs.Namespace == owner.Namespace
		if isOwner(rs, owner) || owner.Kind == cluster.ReplicaSet && named(rs, owner) || orphan && matchesAny(adopters, rs.Labels) {
			out.OwnedSets = append(out.OwnedSets, rs)
			mine[UID(cluster.ReplicaSet, rs)] = true
		}
	}
	for _, rev := range in.Revisions {
		if isOwner(rev, owner) {
			out.Revisions = append(out.Revisions, rev)
		}
	}
	selectors := out.selectors()
	for _, pod := range in.Pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		switch {
		case ref == nil:
			if pod.Namespace == owner.Namespace && matchesAny(selectors, pod.Labels) {
				out.Pods = append(out.Pods, pod)
			}
		case isOwner(pod, owner), mine[ref.UID]:
			out.Pods = append(out.Pods, pod)
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

// adopters are the selectors of Deployments, by which they adopt sets.
func (in Input) adopters() []labels.Selector {
	return Input{Deployments: in.Deployments}.selectors()
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
