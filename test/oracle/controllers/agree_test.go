package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
)

// broken Pods never become ready.
func broken(pod *corev1.Pod) bool { return strings.Contains(pod.Spec.Containers[0].Image, "broken") }

// pair is both sides.
type pair struct {
	t    *testing.T
	kube *kubernetes
	ours *ours
}

func newPair(t *testing.T) *pair {
	t.Parallel()
	return &pair{t: t, kube: startKubernetes(t), ours: newOurs(t)}
}

// agree lets both come to rest and compares them.
func (p *pair) agree(step string) {
	p.t.Helper()
	p.ours.settle()
	want := p.ours.state().view()
	if diff := cmp.Diff(p.kube.settles(want), want); diff != "" {
		p.t.Fatalf("%s: Kubernetes and we differ (-Kubernetes +ours):\n%s", step, diff)
	}
}

func template(version string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/web:" + version}}},
	}
}

var (
	web      = metav1.ObjectMeta{Namespace: namespace, Name: "web", Generation: 1, UID: "uid-web"}
	selector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
)

func deploymentOf(replicas int32, surge, unavailable string) *appsv1.Deployment {
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	d := &appsv1.Deployment{ObjectMeta: web, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &selector, Template: template("v1"),
		Strategy: appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
		},
	}}
	legacyscheme.Scheme.Default(d)
	return d
}

func (p *pair) createDeployment(d *appsv1.Deployment) {
	p.t.Helper()
	p.ours.put(d.DeepCopy())
	if _, err := p.kube.client.AppsV1().Deployments(namespace).Create(context.Background(), d, metav1.CreateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// editDeployment does the same to both.
func (p *pair) editDeployment(edit func(*appsv1.Deployment)) {
	p.t.Helper()
	d := p.ours.state().deployments[0].DeepCopy()
	edit(d)
	d.Generation++
	p.ours.put(d)
	api := p.kube.client.AppsV1().Deployments(namespace)
	p.kube.edit(func(ctx context.Context) error {
		theirs, err := api.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(theirs)
		_, err = api.Update(ctx, theirs, metav1.UpdateOptions{})
		return err
	})
}

func to(version string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Template = template(version)
		legacyscheme.Scheme.Default(d)
	}
}

func sized(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

// TestDeploymentAgrees: a life of a Deployment.
func TestDeploymentAgrees(t *testing.T) {
	p := newPair(t)
	limit := int32(3)
	d := deploymentOf(3, "25%", "25%")
	d.Spec.RevisionHistoryLimit = &limit
	d.Annotations = map[string]string{"kubernetes.io/change-cause": "first"}
	p.createDeployment(d)
	p.agree("created")
	for _, step := range []struct {
		name string
		edit func(*appsv1.Deployment)
	}{
		{"scaled up", sized(5)},
		{"scaled down", sized(2)},
		{"scaled up again", sized(10)},
		{"updated", to("v2")},
		{"cause", func(d *appsv1.Deployment) { d.Annotations["kubernetes.io/change-cause"] = "second" }},
		{"back", to("v1")},
		{"an update that does not get through", to("broken")},
		{"scaled up meanwhile", sized(15)},
		{"scaled down meanwhile", sized(5)},
		{"mended", to("v3")},
		{"paused", func(d *appsv1.Deployment) { d.Spec.Paused = true }},
		{"updated while paused", to("v4")},
		{"scaled while paused", sized(8)},
		{"resumed", func(d *appsv1.Deployment) { d.Spec.Paused = false }},
		{"history beyond the limit", to("v5")},
		{"and more", to("v6")},
		{"strategy", func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}},
		{"recreated", to("v7")},
		{"to none", sized(0)},
		{"from none", sized(4)},
	} {
		p.editDeployment(step.edit)
		p.agree(step.name)
	}
}

// TestStuckRolloutAgrees: how far a rollout gets whose Pods do not become ready, for
// many sizes and bounds, and what a change of the scale makes of it.
func TestStuckRolloutAgrees(t *testing.T) {
	for _, replicas := range []int32{1, 2, 5, 6, 10} {
		for _, share := range [][2]string{{"25%", "25%"}, {"0", "1%"}, {"1", "0"}, {"30%", "2"}, {"100%", "50%"}} {
			t.Run(fmt.Sprintf("%d,%s,%s", replicas, share[0], share[1]), func(t *testing.T) {
				p := newPair(t)
				p.createDeployment(deploymentOf(replicas, share[0], share[1]))
				p.agree("created")
				p.editDeployment(to("broken"))
				p.agree("stuck")
				rng := rand.New(rand.NewPCG(uint64(replicas), 7))
				for range 3 {
					n := rng.Int32N(14)
					p.editDeployment(sized(n))
					p.agree(fmt.Sprintf("scaled to %d", n))
				}
				p.editDeployment(to("v3"))
				p.agree("mended")
			})
		}
	}
}
