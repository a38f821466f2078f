package endpoints_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/endpoints"
)

// lessonPod is Pod i of the lesson's measurement: one in three is app=web.
func lessonPod(i int) *corev1.Pod {
	app := "other"
	if i%3 == 0 {
		app = "web"
	}
	return newPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("10.%d.%d.%d", 244+i>>16, i>>8&255, i&255),
		labels{"tier": "frontend", "app": app, "pod-template-hash": fmt.Sprintf("h%d", i%5)})
}

// BenchmarkSelector resolves one selector over n Pods to the list of their
// addresses, as the lesson's Python does. "third" is the lesson's own selector,
// which a third of all Pods match: time is then that of writing the list.
// "ten" is a selector as Services have them: ten Pods match.
func BenchmarkSelector(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		x := endpoints.New()
		x.SetService(newService("third", labels{"app": "web"}))
		x.SetService(newService("ten", labels{"tier": "frontend", "instance": "7"}))
		for i := range n {
			p := lessonPod(i)
			p.Labels["instance"] = fmt.Sprint(i / 10)
			x.SetPod(p)
		}
		for service, want := range map[string]int{"third": (n + 2) / 3, "ten": 10} {
			b.Run(fmt.Sprintf("%s/pods=%d", service, n), func(b *testing.B) {
				name := key("default", service)
				var ips []string
				for b.Loop() {
					ips = ips[:0]
					for p := range x.Selected(name) {
						ips = append(ips, p.Status.PodIP)
					}
				}
				if len(ips) != want {
					b.Fatalf("%d Pods match, want %d", len(ips), want)
				}
			})
		}
	}
}

// cluster10k makes 100,000 Pods with five labels in 50 namespaces, and 10,000
// Services that select ten of them each by two labels.
func cluster10k() (pods []*corev1.Pod, services []*corev1.Service) {
	for i := range 100_000 {
		app := i / 10
		p := newPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("10.%d.%d.%d", 244+i>>16, i>>8&255, i&255), labels{
			"app": fmt.Sprintf("app-%d", app), "tier": "frontend", "env": "prod",
			"pod-template-hash": fmt.Sprintf("h%d", app%97), "version": fmt.Sprintf("v%d", i%2),
		}, ready(corev1.ConditionTrue))
		p.Namespace = fmt.Sprintf("ns-%d", app%50)
		pods = append(pods, p)
		if i%10 == 0 {
			s := newService(fmt.Sprintf("svc-%d", app), labels{"app": fmt.Sprintf("app-%d", app), "tier": "frontend"})
			s.Namespace = p.Namespace
			services = append(services, s)
		}
	}
	return pods, services
}

func fill(pods []*corev1.Pod, services []*corev1.Service) *endpoints.Index {
	x := endpoints.New()
	for _, p := range pods {
		x.SetPod(p)
	}
	for _, s := range services {
		x.SetService(s)
	}
	return x
}

// BenchmarkBuild100kPods10kServices fills an index.
func BenchmarkBuild100kPods10kServices(b *testing.B) {
	pods, services := cluster10k()
	for b.Loop() {
		fill(pods, services)
	}
}

// BenchmarkAll10kSelectors resolves 10,000 selectors over 100,000 Pods.
func BenchmarkAll10kSelectors(b *testing.B) {
	pods, services := cluster10k()
	x := fill(pods, services)
	for b.Loop() {
		found := 0
		for _, s := range services {
			for range x.Selected(key(s.Namespace, s.Name)) {
				found++
			}
		}
		if found != len(pods) {
			b.Fatalf("%d Pods selected, want %d", found, len(pods))
		}
	}
}

// BenchmarkPodEvent is one changed Pod among 100,000 with 10,000 Services: from
// the event to the names of the Services it affects ("ready": readiness changed;
// "labels": it moved to another Service), and with their slices built ("slices").
func BenchmarkPodEvent(b *testing.B) {
	pods, services := cluster10k()
	x := fill(pods, services)
	was := pods[4321]
	unready, moved := was.DeepCopy(), was.DeepCopy()
	ready(corev1.ConditionFalse)(unready)
	moved.Labels["app"] = "app-482" // of the same namespace
	run := func(name string, next *corev1.Pod, services int, after func()) {
		b.Run(name, func(b *testing.B) {
			x.SetPod(was)
			states := [2]*corev1.Pod{next, was}
			before := x.Stats()
			i := 0
			for b.Loop() {
				if changed := x.SetPod(states[i%2]); len(changed) != services {
					b.Fatalf("%d Services changed", len(changed))
				}
				after()
				i++
			}
			b.ReportMetric(float64(x.Stats().Visited-before.Visited)/float64(i), "services/op")
		})
	}
	run("ready", unready, 1, func() {})
	run("labels", moved, 2, func() {})
	run("slices", unready, 1, func() { x.Resolve(key("ns-32", "svc-432")) })
}
