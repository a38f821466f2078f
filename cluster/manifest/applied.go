package manifest

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/toyproxy/toyproxy/cluster"
)

// LastApplied is the annotation in which Load leaves the manifest of a workload as
// it was written, in JSON: what it does not say can be told there from what the
// defaults say.
const LastApplied = "toyproxy.dev/last-applied"

// SetLastApplied puts a manifest as it was written into an object.
func SetLastApplied(obj metav1.Object, text string) {
	all := maps.Clone(obj.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	all[LastApplied] = text
	obj.SetAnnotations(all)
}

// noteApplied leaves the manifest of a workload in its object.
func (it *item) noteApplied() {
	if !makesPods(it.ref.Kind) {
		return
	}
	// A manifest that was made of a live object holds the one before it, and a status.
	root := it.root.without("metadata", "annotations", LastApplied).without("metadata", "managedFields").without("status")
	SetLastApplied(it.obj, string(root.appendJSON(nil)))
}

// without returns the tree without one field, on copies.
func (t *tree) without(path ...string) *tree {
	out := *t
	out.fields = nil
	for _, f := range t.fields {
		switch {
		case f.name != path[0]:
		case len(path) == 1:
			continue
		default:
			f.value = *f.value.without(path[1:]...)
		}
		out.fields = append(out.fields, f)
	}
	return &out
}

// Default fills in what a workload leaves open, as Load does.
func Default(obj metav1.Object) {
	if o, rules, ok := known(obj); ok {
		rules.settle(o)
	}
}

// Check says what an API server would refuse of a workload that has its defaults.
func Check(obj metav1.Object) field.ErrorList {
	if o, rules, ok := known(obj); ok {
		return rules.check(o)
	}
	return nil
}

// known returns an object with the rules of its kind.
func known(obj metav1.Object) (object, rules, bool) {
	o, ok := obj.(object)
	if !ok {
		return nil, rules{}, false
	}
	r, ok := rulesOf(kindOf(obj))
	return o, r, ok
}

// kindOf is the kind of a workload, whether the object says so or not.
func kindOf(obj metav1.Object) cluster.Kind {
	switch obj.(type) {
	case *appsv1.Deployment:
		return cluster.Deployment
	case *appsv1.ReplicaSet:
		return cluster.ReplicaSet
	case *appsv1.StatefulSet:
		return cluster.StatefulSet
	case *appsv1.DaemonSet:
		return cluster.DaemonSet
	}
	return ""
}
