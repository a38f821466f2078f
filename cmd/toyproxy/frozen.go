package main

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/apply"
)

// keepFrozen keeps ConfigMaps and Secrets as they live where manifests want of them
// what an API server refuses: to change one that is immutable.
func keepFrozen(in agent.Input, kept cluster.Objects) agent.Input {
	var faults []cluster.Problem
	in.Objects.ConfigMaps = frozen(in.Objects.ConfigMaps, kept.ConfigMaps, cluster.ConfigMap, &faults)
	in.Objects.Secrets = frozen(in.Objects.Secrets, kept.Secrets, cluster.Secret, &faults)
	in.Problems = slices.Concat(in.Problems, located(faults, in))
	return in
}

// frozen returns those wanted, or kept where they must not change.
func frozen[T metav1.Object](wanted, kept []T, kind cluster.Kind, faults *[]cluster.Problem) []T {
	out := slices.Clone(wanted)
	for i, obj := range out {
		at := slices.IndexFunc(kept, func(k T) bool {
			return cmp.Or(cmp.Compare(k.GetNamespace(), obj.GetNamespace()), cmp.Compare(k.GetName(), obj.GetName())) == 0
		})
		if at < 0 {
			continue
		}
		if errs := apply.Immutable(kept[at], obj); len(errs) > 0 {
			refused := apply.RefusedError{Object: cluster.MakeRef(kind, obj.GetNamespace(), obj.GetName()), Faults: errs}
			*faults = append(*faults, refused.Problems()...)
			out[i] = kept[at]
		}
	}
	return out
}
