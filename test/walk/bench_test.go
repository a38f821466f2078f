package walk

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
	"github.com/toyproxy/toyproxy/test/lab"
)

// BenchmarkChange is one Pod that becomes ready or ceases to be, among many
// Services of ten Pods each: from its event to the end of the write to the kernel
// and of the look for stale flows. Run it with -benchtime 100x, and few Services
// where each call is slow.
func BenchmarkChange(b *testing.B) {
	for _, c := range columns() {
		for _, n := range []int{100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/services=%d", c.name, n), func(b *testing.B) {
				lab.Require(b, append(c.needs, lab.Namespaces)...)
				benchmarkChange(b, c, n)
			})
		}
	}
}

func benchmarkChange(b *testing.B, c column, n int) {
	node, dir := lab.New(b, lab.WithPods(0)).Node, b.TempDir()
	flows := conntrack.New(conntrack.Config{Virtual: c.virtual, Journal: filepath.Join(dir, "frontends.json")})
	tracker := agent.NewTracker(balance.Node{Name: "n", PodRanges: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}, ServiceRanges: lab.ServiceRanges()},
		dataplane.Follow(c.make(dir)), flows)
	defer tracker.Close()
	take := func(events []cluster.Event) (whole bool) {
		p, err := tracker.Update(b.Context(), events)
		if err == nil {
			whole, err = p.Whole, p.Apply(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		return whole
	}
	services, pods := crowd(n)
	node.Do(func() {
		take(cluster.NewStore().Replace(cluster.Objects{Services: services, Pods: pods}))
		states, wholes, i := both(pods[421]), 0, 0
		take(states[1]) // the first change may have more to do than those after it
		for b.Loop() {
			if take(states[i%2]) {
				wholes++
			}
			i++
		}
		if wholes > 0 {
			b.Errorf("%d of %d passes were whole ones", wholes, i)
		}
	})
}

// crowd is n Services with ten Pods each.
func crowd(n int) (services []*corev1.Service, pods []*corev1.Pod) {
	for i := range n {
		name := fmt.Sprintf("svc-%05d", i)
		vip := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}).String()
		services = append(services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: vip, ClusterIPs: []string{vip}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}}},
		})
		for j := range 10 {
			id := 10*i + j
			pods = append(pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, j), Labels: map[string]string{"app": name}},
				Spec:       corev1.PodSpec{NodeName: "n"},
				Status: corev1.PodStatus{PodIP: netip.AddrFrom4([4]byte{10, byte(128 + id>>16), byte(id >> 8), byte(id)}).String(),
					Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			})
		}
	}
	return services, pods
}

// both are the events by which a Pod ceases to be ready, and is so again.
func both(p *corev1.Pod) (out [2][]cluster.Event) {
	for i, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
		next := p.DeepCopy()
		next.Status.Conditions[0].Status = status
		out[i] = []cluster.Event{{Object: cluster.MakeRef(cluster.Pod, p.Namespace, p.Name), Old: p, New: next}}
	}
	return out
}
