package balance_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/endpoints"
)

// What annotations of slices wish for the shares of endpoints.
func TestWeights(t *testing.T) {
	const prefix = "warning: EndpointSlice default/s: metadata.annotations[toyproxy.dev/weights]: "
	for _, tc := range []struct {
		name, text string
		want       []uint16
		problem    string
	}{
		{"numbers and words", `{"10.244.0.1":20,"10.244.0.2":"3"}`, []uint16{20, 3}, ""},
		{"one", `{"10.244.0.2":100}`, []uint16{1, 100}, ""},
		{"of nobody", `{"10.244.0.9":7}`, []uint16{1, 1}, ""},
		{"no JSON", `10.244.0.1=2`, []uint16{1, 1}, prefix + `not a JSON object, all endpoints have weight 1: write it like {"10.244.0.5":20}`},
		{"zero", `{"10.244.0.1":0}`, []uint16{1, 1}, prefix + `"0" is no weight, the endpoint 10.244.0.1 has weight 1: write a number between 1 and 100`},
		{"too much", `{"10.244.0.1":101}`, []uint16{1, 1}, prefix + `"101" is no weight, the endpoint 10.244.0.1 has weight 1: write a number between 1 and 100`},
		{"a list", `{"10.244.0.1":[1]}`, []uint16{1, 1}, prefix + `"[1]" is no weight, the endpoint 10.244.0.1 has weight 1: write a number between 1 and 100`},
		{"null", `{"10.244.0.1":null}`, []uint16{1, 1}, prefix + `"" is no weight, the endpoint 10.244.0.1 has weight 1: write a number between 1 and 100`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			slices := pods("a", "b")
			slices[0].Annotations = map[string]string{endpoints.WeightsAnnotation: tc.text}
			table, problems := build(openNode(), slices, newService("web", "http:80/TCP"))
			var got []uint16
			for _, e := range table.Sets[0].Endpoints {
				got = append(got, e.Weight)
			}
			equal(t, "weights", got, tc.want)
			equal(t, "problem", []string{strings.Join(texts(problems), "; ")}, []string{tc.problem})
		})
	}
}

// From the annotation of a Pod to the endpoint; a fault is told of the Pod.
func TestWeightsOfPods(t *testing.T) {
	x := endpoints.New()
	web := map[string]string{"app": "web"}
	for i, text := range []string{"", "40", "many"} {
		pod := podAt(i+1, web, corev1.ConditionTrue)
		if text != "" {
			pod.Annotations = map[string]string{endpoints.WeightAnnotation: text}
		}
		x.SetPod(pod)
	}
	svc := newService("web", "http:80/TCP")
	svc.Spec.Selector, svc.Spec.IPFamilies = web, []corev1.IPFamily{corev1.IPv4Protocol}
	svc.Spec.Ports[0].TargetPort.IntVal = 80
	x.SetService(svc)
	table, problems := balance.Build(openNode(), []*corev1.Service{svc}, x.Resolve)
	var got []uint16
	for _, e := range table.Sets[0].Endpoints {
		got = append(got, e.Weight)
	}
	equal(t, "weights", got, []uint16{1, 40, 1})
	equal(t, "problems", texts(problems), []string{`warning: Pod default/pod-3: metadata.annotations[toyproxy.dev/weight]: ` +
		`"many" is no weight, the endpoint 10.128.0.3 has weight 1: write a number between 1 and 100`})
}

func TestScheduler(t *testing.T) {
	ours, theirs := balance.SchedulerAnnotation, "kube-router.io/service.scheduler"
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		want        string
		problems    int
	}{
		{"none", nil, "", 0},
		{"ours", map[string]string{ours: "wlc"}, "wlc", 0},
		{"kube-router's", map[string]string{theirs: "sh"}, "sh", 0},
		{"ours before kube-router's", map[string]string{ours: "rr", theirs: "sh"}, "rr", 0},
		{"ours is none", map[string]string{ours: "RR", theirs: "sh"}, "sh", 1},
		{"option", map[string]string{ours: "rr -w 9"}, "", 1},
		{"empty", map[string]string{ours: ""}, "", 1},
		{"longer than the kernel has room for", map[string]string{ours: strings.Repeat("a", 16)}, "", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			svc := openService(external)
			svc.Annotations = tc.annotations
			table, problems := build(openNode(), pods("a@n1"), svc)
			for _, s := range table.Sets {
				if s.Scheduler != tc.want {
					t.Errorf("set %s: scheduler %q, want %q", s.Name, s.Scheduler, tc.want)
				}
			}
			if len(table.Sets) != 2 || len(problems) != tc.problems {
				t.Errorf("%d sets, problems %v", len(table.Sets), texts(problems))
			}
		})
	}
}

// C22 to C24: what load balancers are told.
func TestHealthChecks(t *testing.T) {
	checked := openService(external, func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 30500 })
	two := checked.DeepCopy()
	two.Spec.Ports = append(two.Spec.Ports, corev1.ServicePort{Name: "alt", Port: 81, Protocol: corev1.ProtocolTCP})
	for _, tc := range []struct {
		id     string
		svc    *corev1.Service
		slices []*discoveryv1.EndpointSlice
		local  int // -1: no check
	}{
		{"C22: two here, one elsewhere", checked, pods("a@n1", "b@n1", "c@n2"), 2},
		{"C22: none here", checked, pods("c@n2", "d"), 0},
		{"C22: no endpoint", checked, nil, 0},
		{"C22: hints do not count", checked, hintedPods("a@n1 rs > z2", "b@n2 rs > z1"), 1},
		{"C23: only terminating", checked, pods("a@n1 st", "b@n1 -"), 0},
		{"C24: one Pod of two ports", two, []*discoveryv1.EndpointSlice{newSlice("s", ports("http:80/TCP", "alt:81/TCP"), expand([]string{"a@n1"})...)}, 1},
		{"C24: two ports of different Pods", two, []*discoveryv1.EndpointSlice{
			newSlice("s", ports("http:80/TCP"), expand([]string{"a@n1"})...), newSlice("t", ports("alt:81/TCP"), expand([]string{"b@n1"})...)}, 2},
		{"one Pod of two families", clusterIP(checked.DeepCopy(), places["CIP"], "fd00:10:96::a"),
			append(pods("a@n1"), newSlice("six", ports("http:80/TCP"), "fd00:10:244::1@n1")), 1},
		{"C24: policy Cluster", openService(func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 30500 }), pods("a@n1"), -1},
		{"E1: no port", openService(external), pods("a@n1"), -1},
		{"another proxy's", openService(external, func(s *corev1.Service) {
			s.Spec.HealthCheckNodePort, s.Labels = 30500, map[string]string{balance.ProxyNameLabel: "x"}
		}), pods("a@n1"), -1},
	} {
		t.Run(tc.id, func(t *testing.T) {
			got, problems := balance.HealthChecks(openNode(), []*corev1.Service{tc.svc}, func(types.NamespacedName) []*discoveryv1.EndpointSlice { return tc.slices })
			var want []balance.HealthCheck
			if tc.local >= 0 {
				want = []balance.HealthCheck{{Service: types.NamespacedName{Namespace: "default", Name: "web"}, Port: 30500, Local: tc.local}}
			}
			equal(t, "checks", got, want)
			equal(t, "problems", texts(problems), nil)
		})
	}
}

func TestHealthChecksCollide(t *testing.T) {
	named := func(name string, health, port int32) *corev1.Service {
		return openService(external, func(s *corev1.Service) {
			s.Name, s.Spec.HealthCheckNodePort, s.Spec.Ports[0].NodePort = name, health, port
		})
	}
	got, problems := balance.HealthChecks(openNode(), []*corev1.Service{named("c", 30003, 30500), named("b", 30001, 30002), named("a", 30001, 30003)},
		func(types.NamespacedName) []*discoveryv1.EndpointSlice { return nil })
	equal(t, "checks", got, []balance.HealthCheck{{Service: types.NamespacedName{Namespace: "default", Name: "a"}, Port: 30001}})
	const rest = ", load balancers get no answer for this Service: choose another port, or leave it out to be given one"
	equal(t, "problems", texts(problems), []string{
		"Service default/b: spec.healthCheckNodePort: port 30001 already belongs to Service default/a" + rest,
		"Service default/c: spec.healthCheckNodePort: port 30003 already belongs to Service default/a" + rest,
	})
}
