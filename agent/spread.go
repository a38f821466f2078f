package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Spread gives Pods that nobody has placed to nodes, on copies: to the node where
// they are already (at), else to the one that has the fewest Pods with the same
// labels, of those the one with the fewest Pods, of those the first by name. A Pod
// that names a node which is none of these is left out, and a problem says so.
// Pods with an address are somebody else's and pass through. Pure.
func Spread(pods []*corev1.Pod, nodes []string, at map[types.NamespacedName]string, problems []cluster.Problem) ([]*corev1.Pod, []cluster.Problem) {
	s := spread{nodes: nodes, all: map[string]int{}, alike: map[string]map[string]int{}}
	problems = slices.Clone(problems)
	var placed, open []*corev1.Pod
	for _, p := range pods {
		name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		node := cmp.Or(p.Spec.NodeName, at[name])
		known := slices.Contains(nodes, node)
		switch {
		case p.Status.PodIP != "":
			placed = append(placed, p)
		case known:
			placed = append(placed, s.put(p, node))
		case p.Spec.NodeName != "":
			problems = append(problems, cluster.Problem{
				Object: cluster.MakeRef(cluster.Pod, p.Namespace, p.Name), Field: "spec.nodeName",
				Message: fmt.Sprintf("there is no Node %s, the Pod is not made: name one of %s, or leave the field out", p.Spec.NodeName, strings.Join(nodes, ", "))})
		default:
			open = append(open, p)
		}
	}
	byName := func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(open, byName)
	for _, p := range open {
		if node, ok := s.emptiest(p); ok {
			placed = append(placed, s.put(p, node))
		}
	}
	slices.SortStableFunc(placed, byName)
	return placed, problems
}

// spread counts the Pods of each node: all, and those alike by their labels.
type spread struct {
	nodes []string
	all   map[string]int
	alike map[string]map[string]int
}

// put places a Pod on a node.
func (s spread) put(p *corev1.Pod, node string) *corev1.Pod {
	kind := kindOf(p)
	if s.alike[kind] == nil {
		s.alike[kind] = map[string]int{}
	}
	s.all[node]++
	s.alike[kind][node]++
	if p.Spec.NodeName == node {
		return p
	}
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// emptiest is the node that a Pod goes to; false when there is none.
func (s spread) emptiest(p *corev1.Pod) (string, bool) {
	if len(s.nodes) == 0 {
		return "", false
	}
	kind := kindOf(p)
	return slices.MinFunc(s.nodes, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.alike[kind][a], s.alike[kind][b]), cmp.Compare(s.all[a], s.all[b]), cmp.Compare(a, b))
	}), true
}

// kindOf is the same for Pods of one namespace with the same labels.
func kindOf(p *corev1.Pod) string {
	var out strings.Builder
	out.WriteString(p.Namespace)
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		fmt.Fprintf(&out, "\x00%s=%s", key, p.Labels[key])
	}
	return out.String()
}
