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
	return KeepGoodOf(in, kept, made, func(cluster.Ref) string { return "" })
}

// KeepGoodOf is KeepLastGood for who knows in which file each of the kept objects
// stood: what is missing from a file that cannot be read, or not all of it, is as
// it was too.
func KeepGoodOf(in Input, kept cluster.Objects, made func(*corev1.Pod) bool, fileOf func(cluster.Ref) string) Input {
	k := keeper{wrong: map[cluster.Ref]bool{}, broken: map[string]bool{}, fileOf: fileOf}
	for _, p := range in.Problems {
		switch {
		case p.Warning:
		case p.Object.Name != "":
			k.wrong[p.Object] = true
		case p.File != "":
			k.broken[p.File] = true
		}
	}
	if len(k.wrong)+len(k.broken) == 0 {
		return in
	}
	in.Objects.Services = rescue(&k, cluster.Service, in.Objects.Services, kept.Services)
	in.Objects.EndpointSlices = rescue(&k, cluster.EndpointSlice, in.Objects.EndpointSlices,
		slices.DeleteFunc(slices.Clone(kept.EndpointSlices), func(s *discoveryv1.EndpointSlice) bool {
			return s.Labels[discoveryv1.LabelManagedBy] == endpoints.ManagedBy
		}))
	in.Objects.Pods = rescue(&k, cluster.Pod, in.Objects.Pods, asWanted(kept.Pods, made))
	in.Objects.ConfigMaps = rescue(&k, cluster.ConfigMap, in.Objects.ConfigMaps, kept.ConfigMaps)
	in.Objects.Secrets = rescue(&k, cluster.Secret, in.Objects.Secrets, kept.Secrets)
	in.Objects.Nodes = rescue(&k, cluster.Node, in.Objects.Nodes, kept.Nodes)
	in.Objects.Namespaces = rescue(&k, cluster.Namespace, in.Objects.Namespaces, kept.Namespaces)
	in.Objects.Deployments = rescue(&k, cluster.Deployment, in.Objects.Deployments, kept.Deployments)
	in.Objects.ReplicaSets = rescue(&k, cluster.ReplicaSet, in.Objects.ReplicaSets, kept.ReplicaSets)
	in.Objects.StatefulSets = rescue(&k, cluster.StatefulSet, in.Objects.StatefulSets, kept.StatefulSets)
	in.Objects.DaemonSets = rescue(&k, cluster.DaemonSet, in.Objects.DaemonSets, kept.DaemonSets)
	rescueDoors(&k, &in.Objects, kept)
	in.Problems = append(slices.Clone(in.Problems), k.problems...)
	return in
}

// rescueDoors does it for the kinds of Ingress and of the Gateway API.
func rescueDoors(k *keeper, now *cluster.Objects, kept cluster.Objects) {
	now.Ingresses = rescue(k, cluster.Ingress, now.Ingresses, kept.Ingresses)
	now.IngressClasses = rescue(k, cluster.IngressClass, now.IngressClasses, kept.IngressClasses)
	now.GatewayClasses = rescue(k, cluster.GatewayClass, now.GatewayClasses, kept.GatewayClasses)
	now.Gateways = rescue(k, cluster.Gateway, now.Gateways, kept.Gateways)
	now.HTTPRoutes = rescue(k, cluster.HTTPRoute, now.HTTPRoutes, kept.HTTPRoutes)
	now.ReferenceGrants = rescue(k, cluster.ReferenceGrant, now.ReferenceGrants, kept.ReferenceGrants)
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
	// wrong are objects that are wrong now, broken the files of which something is.
	wrong    map[cluster.Ref]bool
	broken   map[string]bool
	fileOf   func(cluster.Ref) string
	problems []cluster.Problem
}

// keeps tells whether an object that is missing is to be as it was.
func (k *keeper) keeps(ref cluster.Ref) bool {
	file := k.fileOf(ref)
	return k.wrong[ref] || file != "" && k.broken[file]
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
		if present[ref] || !k.keeps(ref) {
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
