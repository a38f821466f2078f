package agent

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

func TestKeepLastGood(t *testing.T) {
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	living := pod("web-1")
	living.Status.PodIP = "10.244.0.2"
	kept := cluster.Objects{
		Services: []*corev1.Service{service("broken"), service("gone"), service("twice")},
		Pods:     []*corev1.Pod{living},
	}
	fault := func(kind cluster.Kind, name string) cluster.Problem {
		return cluster.Problem{Object: cluster.MakeRef(kind, "default", name), Message: "wrong"}
	}
	in := Input{
		Objects: cluster.Objects{Services: []*corev1.Service{service("good"), service("twice")}},
		Problems: []cluster.Problem{
			fault(cluster.Service, "broken"), fault(cluster.Service, "twice"), fault(cluster.Service, "new"),
			fault(cluster.Pod, "web-1"),
		},
	}
	out := KeepLastGood(in, kept, func(*corev1.Pod) bool { return true })
	var names []string
	for _, s := range out.Objects.Services {
		names = append(names, s.Name)
	}
	if want := []string{"broken", "good", "twice"}; !slices.Equal(names, want) {
		t.Errorf("Services %v, want %v: kept is what is wrong and was good, not what is gone", names, want)
	}
	if len(out.Objects.Pods) != 1 || out.Objects.Pods[0].Status.PodIP != "" {
		t.Errorf("Pods %v, want web-1 as it was wanted, without what the node added", out.Objects.Pods)
	}
	if living.Status.PodIP == "" || len(in.Objects.Services) != 2 {
		t.Error("what was given was changed")
	}
	warnings := 0
	for _, p := range out.Problems {
		if p.Warning && strings.Contains(p.Message, "last good version") {
			warnings++
		}
	}
	if warnings != 2 {
		t.Errorf("%d warnings about what is kept, want 2", warnings)
	}
}

// What stood in a file that cannot be read any more stays, of every kind; what is
// gone from a good file goes.
func TestKeepGoodOfBrokenFiles(t *testing.T) {
	svc := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	kept := cluster.Objects{
		Services:    []*corev1.Service{svc("broken-1"), svc("broken-2"), svc("gone"), svc("there")},
		Deployments: []*appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "broken-3"}}},
	}
	in := Input{
		Objects:  cluster.Objects{Services: []*corev1.Service{svc("there")}},
		Problems: []cluster.Problem{{Position: cluster.Position{File: "bad.yaml", Line: 3}, Message: "bad YAML"}},
	}
	out := KeepGoodOf(in, kept, func(*corev1.Pod) bool { return false }, func(ref cluster.Ref) string {
		if strings.HasPrefix(ref.Name, "broken") {
			return "bad.yaml"
		}
		return "good.yaml"
	})
	var names []string
	for ref := range out.Objects.Refs() {
		names = append(names, ref.Name)
	}
	slices.Sort(names)
	if want := []string{"broken-1", "broken-2", "broken-3", "there"}; !slices.Equal(names, want) || len(out.Problems) != 4 {
		t.Errorf("kept %v, want %v; problems %v", names, want, out.Problems)
	}
}
