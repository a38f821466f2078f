package agent

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/endpoints"
)

// KeepLastGood returns the input with the last good version of every object that
// is wrong now: a slip of the pen in a manifest takes nothing away that works.
// Kept are the objects that the last pass left; made tells which Pods the node
// makes itself. An object that is simply gone stays gone. Pure.
func KeepLastGood(in Input, kept cluster.Objects, made func(*corev1.Pod) bool) Input {
	wrong := map[cluster.Ref]bool{}
	for _, p := range in.Problems {
		if !p.Warning && p.Object.Name != "" {
			wrong[p.Object] = true
		}
	}
	if len(wrong) == 0 {
		return in
	}
	k := keeper{wrong: wrong}
	in.Objects.Services = rescue(&k, cluster.Service, in.Objects.Services, kept.Services)
	in.Objects.EndpointSlices = rescue(&k, cluster.EndpointSlice, in.Objects.EndpointSlices,
		slices.DeleteFunc(slices.Clone(kept.EndpointSlices), func(s *discoveryv1.EndpointSlice) bool {
			return s.Labels[discoveryv1.LabelManagedBy] == endpoints.ManagedBy
		}))
	in.Objects.Pods = rescue(&k, cluster.Pod, in.Objects.Pods, asWanted(kept.Pods, made))
	in.Objects.ConfigMaps = rescue(&k, cluster.ConfigMap, in.Objects.ConfigMaps, kept.ConfigMaps)
	in.Objects.Secrets = rescue(&k, cluster.Secret, in.Objects.Secrets, kept.Secrets)
	in.Objects.Nodes = rescue(&k, cluster.Node, in.Objects.Nodes, kept.Nodes)
	in.Problems = append(slices.Clone(in.Problems), k.problems...)
	return in
}

// asWanted takes off Pods what the node itself has added.
func asWanted(pods []*corev1.Pod, made func(*corev1.Pod) bool) []*corev1.Pod {
	out := slices.Clone(pods)
	for i, p := range out {
		if made(p) {
			out[i] = p.DeepCopy()
			out[i].Status = corev1.PodStatus{}
		}
	}
	return out
}

type keeper struct {
	wrong    map[cluster.Ref]bool
	problems []cluster.Problem
}

// rescue adds those kept objects whose present version is wrong and left out.
func rescue[T metav1.Object](k *keeper, kind cluster.Kind, now, kept []T) []T {
	present := map[cluster.Ref]bool{}
	for _, obj := range now {
		present[cluster.MakeRef(kind, obj.GetNamespace(), obj.GetName())] = true
	}
	out := slices.Clone(now)
	for _, obj := range kept {
		ref := cluster.MakeRef(kind, obj.GetNamespace(), obj.GetName())
		if !k.wrong[ref] || present[ref] {
			continue
		}
		out = append(out, obj)
		k.problems = append(k.problems, cluster.Problem{Object: ref, Warning: true,
			Message: fmt.Sprintf("its last good version stays in force until the manifest is mended or %s is taken out", kind)})
	}
	slices.SortFunc(out, func(a, b T) int {
		return cluster.MakeRef(kind, a.GetNamespace(), a.GetName()).Compare(cluster.MakeRef(kind, b.GetNamespace(), b.GetName()))
	})
	return out
}
