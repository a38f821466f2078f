package agent

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// Place gives Pods that nobody has placed to the node, on copies, and leaves
// out Pods without an address that belong to another node: they are not made
// here, and a problem says so. Pure.
func Place(pods []*corev1.Pod, node string, problems []cluster.Problem) ([]*corev1.Pod, []cluster.Problem) {
	var placed []*corev1.Pod
	problems = slices.Clone(problems)
	for _, p := range pods {
		switch {
		case p.Status.PodIP != "" || p.Spec.NodeName == node:
			placed = append(placed, p)
		case p.Spec.NodeName == "":
			p = p.DeepCopy()
			p.Spec.NodeName = node
			placed = append(placed, p)
		default:
			problems = append(problems, cluster.Problem{
				Object: cluster.MakeRef(cluster.Pod, p.Namespace, p.Name), Field: "spec.nodeName", Warning: true,
				Message: fmt.Sprintf("belongs to node %s and has no address: it is not made on this node, %s; use --node %s, or leave the field out",
					p.Spec.NodeName, node, p.Spec.NodeName)})
		}
	}
	return placed, problems
}
