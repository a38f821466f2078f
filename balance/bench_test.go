package balance_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/endpoints"
)

// many fills an index with n Services of ten Pods each.
func many(n int) (*endpoints.Index, []*corev1.Service) {
	x := endpoints.New()
	var services []*corev1.Service
	for i := range n {
		app := map[string]string{"app": fmt.Sprintf("app-%d", i), "tier": "web"}
		for j := range 10 {
			id := i*10 + j
			x.SetPod(podAt(id, app, corev1.ConditionTrue))
		}
		s := clusterIP(newService(fmt.Sprintf("svc-%d", i), "http:80/TCP"), fmt.Sprintf("10.96.%d.%d", i>>8, i&255))
		s.Spec.Selector, s.Spec.Ports[0].TargetPort = app, intstr.FromInt32(8080)
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		x.SetService(s)
		services = append(services, s)
	}
	return x, services
}

func podAt(id int, labels map[string]string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", id), Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{
			PodIP:      fmt.Sprintf("10.%d.%d.%d", 128+id>>16, id>>8&255, id&255),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
		},
	}
}

// BenchmarkBuild makes the whole table of a node; the slices are there already.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			x, services := many(n)
			balance.Build(node(), services, x.Resolve)
			for b.Loop() {
				if t, _ := balance.Build(node(), services, x.Resolve); len(t.Frontends) != n {
					b.Fatalf("%d frontends", len(t.Frontends))
				}
			}
		})
	}
}

// BenchmarkOneService makes the frontends of one Service with ten endpoints.
func BenchmarkOneService(b *testing.B) {
	x, services := many(1)
	slices := x.Resolve(types.NamespacedName{Namespace: "default", Name: "svc-0"})
	for b.Loop() {
		balance.Frontends(node(), services[0], slices)
	}
}

// BenchmarkOneChangedPod goes from a Pod's changed readiness to the frontends and
// sets of the Services that select it. It must not depend on how many others
// there are.
func BenchmarkOneChangedPod(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			x, services := many(n)
			byName := map[types.NamespacedName]*corev1.Service{}
			for _, s := range services {
				byName[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = s
			}
			labels := services[42].Spec.Selector
			states := []*corev1.Pod{podAt(421, labels, corev1.ConditionFalse), podAt(421, labels, corev1.ConditionTrue)}
			before, i := x.Stats(), 0
			for b.Loop() {
				for _, name := range x.SetPod(states[i%2]) {
					_, sets, _ := balance.Frontends(node(), byName[name], x.Resolve(name))
					if want := 9 + i%2; len(sets[0].Endpoints) != want {
						b.Fatalf("%d endpoints, want %d", len(sets[0].Endpoints), want)
					}
				}
				i++
			}
			b.ReportMetric(float64(x.Stats().Built-before.Built)/float64(i), "services/op")
		})
	}
}

// BenchmarkLedger takes the changed part of one Service into a table of many.
// It must not depend on how many others there are.
func BenchmarkLedger(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			x, services := many(n)
			var parts []balance.Part
			for _, s := range services {
				parts = append(parts, balance.MakePart(node(), s, x.Resolve(types.NamespacedName{Namespace: s.Namespace, Name: s.Name})))
			}
			l := balance.NewLedger(node(), parts)
			states := []balance.Part{balance.MakePart(node(), services[42], nil), parts[42]}
			i := 0
			for b.Loop() {
				if d, _ := l.Update(states[i%2:i%2+1], nil); len(d.After.Frontends) != 1 {
					b.Fatalf("%d frontends", len(d.After.Frontends))
				}
				i++
			}
		})
	}
}

// Of 500 Services, a changed Pod makes the slices of its own be built, once.
func TestOneChangedPodBuildsOnlyItsServices(t *testing.T) {
	x, services := many(500)
	resolve := func() { balance.Build(node(), services, x.Resolve) }
	resolve()
	before := x.Stats()
	changed := x.SetPod(podAt(421, services[42].Spec.Selector, corev1.ConditionFalse))
	resolve()
	if built := x.Stats().Built - before.Built; len(changed) != 1 || built != 1 {
		t.Errorf("%v changed, and the slices of %d Services were built", changed, built)
	}
}
