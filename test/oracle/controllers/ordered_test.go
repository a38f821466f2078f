package controllers

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

func statefulSetOf(replicas int32) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: web, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &selector, Template: template("v1"), ServiceName: "peers",
	}}
	legacyscheme.Scheme.Default(s)
	return s
}

func (p *pair) createStatefulSet(s *appsv1.StatefulSet) {
	p.t.Helper()
	p.ours.put(s.DeepCopy())
	if _, err := p.kube.client.AppsV1().StatefulSets(namespace).Create(context.Background(), s, metav1.CreateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) editStatefulSet(edit func(*appsv1.StatefulSet)) {
	p.t.Helper()
	s := p.ours.state().stateful[0].DeepCopy()
	edit(s)
	s.Generation++
	p.ours.put(s)
	api := p.kube.client.AppsV1().StatefulSets(namespace)
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

func statefulTo(version string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.Template = template(version)
		legacyscheme.Scheme.Default(s)
	}
}

func statefulSized(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n }
}

func partition(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}

type statefulStep struct {
	name string
	edit func(*appsv1.StatefulSet)
}

func (p *pair) liveStatefulSet(steps []statefulStep) {
	p.t.Helper()
	p.agree("created")
	for _, step := range steps {
		p.editStatefulSet(step.edit)
		p.agree(step.name)
	}
}

// TestStatefulSetAgrees: a life of a StatefulSet, in order.
func TestStatefulSetAgrees(t *testing.T) {
	p := newPair(t)
	limit := int32(2)
	s := statefulSetOf(3)
	s.Spec.RevisionHistoryLimit = &limit
	p.createStatefulSet(s)
	p.liveStatefulSet([]statefulStep{
		{"scaled up", statefulSized(5)},
		{"scaled down", statefulSized(2)},
		{"updated", statefulTo("v2")},
		{"scaled up again", statefulSized(4)},
		{"a partition", partition(3)},
		{"updated above it", statefulTo("v3")},
		{"the partition moves", partition(1)},
		{"scaled with a partition", statefulSized(6)},
		{"the partition goes", partition(0)},
		{"back", statefulTo("v1")},
		{"an update that does not get through", statefulTo("broken")},
	})
}

// TestParallelStatefulSetAgrees: the same, all at once.
func TestParallelStatefulSetAgrees(t *testing.T) {
	p := newPair(t)
	s := statefulSetOf(4)
	s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3}
	two := intstr.FromInt32(2)
	p.createStatefulSet(s)
	p.liveStatefulSet([]statefulStep{
		{"updated", statefulTo("v2")},
		{"several at a time", func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &two }},
		{"updated again", statefulTo("v3")},
		{"scaled down", statefulSized(1)},
		{"scaled up", statefulSized(5)},
		{"an update that does not get through", statefulTo("broken")},
	})
}

// TestStatefulSetOnDeleteAgrees: nothing moves by itself.
func TestStatefulSetOnDeleteAgrees(t *testing.T) {
	p := newPair(t)
	s := statefulSetOf(2)
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	p.createStatefulSet(s)
	p.liveStatefulSet([]statefulStep{
		{"updated", statefulTo("v2")},
		{"scaled up: the new one is of the new version", statefulSized(3)},
		{"updated again", statefulTo("v3")},
	})
}

func daemonSetOf() *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: web, Spec: appsv1.DaemonSetSpec{Selector: &selector, Template: template("v1")}}
	legacyscheme.Scheme.Default(d)
	return d
}

func (p *pair) editDaemonSet(edit func(*appsv1.DaemonSet)) {
	p.t.Helper()
	d := p.ours.state().daemons[0].DeepCopy()
	edit(d)
	d.Generation++
	p.ours.put(d)
	api := p.kube.client.AppsV1().DaemonSets(namespace)
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

func daemonTo(version string) func(*appsv1.DaemonSet) {
	return func(d *appsv1.DaemonSet) {
		d.Spec.Template = template(version)
		legacyscheme.Scheme.Default(d)
	}
}

// TestDaemonSetAgrees: a life of a DaemonSet on one node.
func TestDaemonSetAgrees(t *testing.T) {
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	surge := func(d *appsv1.DaemonSet) {
		d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: &one, MaxUnavailable: &none}
	}
	p := newPair(t)
	d := daemonSetOf()
	p.ours.put(d.DeepCopy())
	if _, err := p.kube.client.AppsV1().DaemonSets(namespace).Create(context.Background(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.agree("created")
	for _, step := range []struct {
		name string
		edit func(*appsv1.DaemonSet)
	}{
		{"updated", daemonTo("v2")},
		{"with a surge", surge},
		{"updated with a surge", daemonTo("v3")},
		{"an update with a surge that does not get through", daemonTo("broken")},
		{"mended", daemonTo("v4")},
		{"for another node", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeSelector = map[string]string{"role": "edge"} }},
		{"for this one", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeSelector = nil }},
		{"on delete", func(d *appsv1.DaemonSet) {
			d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
		}},
		{"updated on delete", daemonTo("v5")},
	} {
		p.editDaemonSet(step.edit)
		p.agree(step.name)
	}
}
