package agent

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Service that distributes its traffic is served nearby, by the zones of the
// Node objects; everywhere from a node of which no zone is known.
func TestTrafficStaysInTheZone(t *testing.T) {
	in := input()
	in.Objects.Services[0].Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
	var placed []*corev1.Pod
	for i, node := range []string{"n1", "n2"} {
		in.Objects.Nodes = append(in.Objects.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: node, Labels: map[string]string{corev1.LabelTopologyZone: "zone-of-" + node},
		}})
		p := in.Objects.Pods[0].DeepCopy()
		p.Name, p.Spec.NodeName, p.Status.PodIP = node, node, netip.AddrFrom4([4]byte{10, 244, 0, byte(1 + i)}).String()
		placed = append(placed, p)
	}
	for _, tc := range []struct {
		node string
		want []string
	}{
		{"n1", []string{"10.244.0.1:8080"}},
		{"n2", []string{"10.244.0.2:8080"}},
		{"n3", []string{"10.244.0.1:8080", "10.244.0.2:8080"}},
	} {
		got := endpointsOf(t, Resolve(in, Node{Name: tc.node}, placed).Table)
		if !slices.Equal(got, tc.want) {
			t.Errorf("from %s: %v, want %v", tc.node, got, tc.want)
		}
	}
	in.Objects.Nodes = []*corev1.Node{}
	if got := endpointsOf(t, Resolve(in, Node{Name: "n1"}, placed).Table); len(got) != 2 {
		t.Errorf("without Node objects: %v", got)
	}
}
