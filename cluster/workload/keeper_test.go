package workload

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/manifest"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/controller"
)

// deployment is one as package manifest loads it.
func deployment(name, image string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}},
	}}
	manifest.Default(d)
	text := `{"spec":{"replicas":` + string('0'+replicas) + `,"template":{"spec":{"containers":[{"name":"c","image":"` + image + `"}]}}}}`
	manifest.SetLastApplied(d, text)
	return d
}

// pass merges manifests, has the controllers decide, and keeps that.
func pass(t *testing.T, k *Keeper, objs cluster.Objects) (controller.Input, controller.Result) {
	t.Helper()
	in, problems, err := k.Merge(t.Context(), objs)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	res := controller.Reconcile(in)
	if err := k.Keep(t.Context(), res); err != nil {
		t.Fatal(err)
	}
	return in, res
}

// A workload comes to life with its first manifest, keeps what a command has changed,
// and goes with its manifest; what the controller made of it goes then too.
func TestMergeAndKeep(t *testing.T) {
	dir := t.TempDir()
	k, files := Open(dir), state.OpenWorkloads(dir)
	objs := cluster.Objects{Deployments: []*appsv1.Deployment{deployment("a", "one", 2), deployment("b", "one", 1)}}
	pass(t, k, objs)
	in, _ := pass(t, k, objs)
	if len(in.Deployments) != 2 || len(in.OwnedSets) != 2 || in.Deployments[0].UID == "" || in.Deployments[0].Status.ObservedGeneration != 1 {
		t.Fatalf("after two passes: %d Deployments, %d sets; %+v", len(in.Deployments), len(in.OwnedSets), in.Deployments[0].Status)
	}
	uid := in.Deployments[0].UID
	if err := files.Deployments.Update(nameOf(objs.Deployments[0]), func(d *appsv1.Deployment, _ bool) (*appsv1.Deployment, bool) {
		*d.Spec.Replicas = 5
		return d, true
	}); err != nil {
		t.Fatal(err)
	}
	if in, _ = pass(t, k, objs); *in.Deployments[0].Spec.Replicas != 5 {
		t.Errorf("the manifest undoes a command: %d replicas", *in.Deployments[0].Spec.Replicas)
	}
	objs.Deployments = []*appsv1.Deployment{deployment("a", "two", 2)}
	in, _ = pass(t, k, objs)
	a := in.Deployments[0]
	if len(in.Deployments) != 1 || a.UID != uid || *a.Spec.Replicas != 5 || a.Spec.Template.Spec.Containers[0].Image != "two" || a.Generation < 2 {
		t.Errorf("after another image: %d Deployments; %+v", len(in.Deployments), a.Spec)
	}
	in, _ = pass(t, k, objs)
	if len(in.OwnedSets) != 2 || in.Deployments[0].Annotations[revisionKey] != "2" {
		t.Errorf("%d sets, revision %q; want the two of a: b's went with it", len(in.OwnedSets), in.Deployments[0].Annotations[revisionKey])
	}
	events, err := state.OpenEvents(dir).List(in.Deployments[0].CreationTimestamp.Time)
	if err != nil || !slices.ContainsFunc(events, func(e *corev1.Event) bool { return e.Reason == "ScalingReplicaSet" && e.InvolvedObject.Name == "a" }) {
		t.Errorf("events %v, %v", events, err)
	}
}

// What cannot be changed is a problem, and stays.
func TestMergeRefuses(t *testing.T) {
	k := Open(t.TempDir())
	pass(t, k, cluster.Objects{Deployments: []*appsv1.Deployment{deployment("a", "one", 1)}})
	next := deployment("a", "one", 1)
	next.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
	next.Spec.Template.Labels = next.Spec.Selector.MatchLabels
	manifest.SetLastApplied(next, `{"spec":{"replicas":1,"selector":{"matchLabels":{"app":"other"}},"template":{"metadata":{"labels":{"app":"other"}}}}}`)
	in, problems, err := k.Merge(t.Context(), cluster.Objects{Deployments: []*appsv1.Deployment{next}})
	if err != nil || len(problems) == 0 || !strings.Contains(problems[0].Field, "selector") {
		t.Errorf("problems %v, error %v", problems, err)
	}
	if len(in.Deployments) != 1 || in.Deployments[0].Spec.Selector.MatchLabels["app"] != "a" {
		t.Errorf("Deployments %v", in.Deployments)
	}
}

// A dry keeper says the same and writes nothing.
func TestDry(t *testing.T) {
	dir := t.TempDir()
	objs := cluster.Objects{Deployments: []*appsv1.Deployment{deployment("a", "one", 2)}}
	_, dry := pass(t, OpenDry(dir), objs)
	if kept, err := state.OpenWorkloads(dir).Read(); err != nil || len(kept.Deployments)+len(kept.ReplicaSets) > 0 {
		t.Errorf("kept %v, %v", kept, err)
	}
	_, wet := pass(t, Open(dir), objs)
	if count(dry) != count(wet) || count(dry) == 0 {
		t.Errorf("dry %d actions, wet %d", count(dry), count(wet))
	}
	// What lives is known to a dry keeper too.
	if in, res := pass(t, OpenDry(dir), objs); len(in.OwnedSets) != 1 || count(res) >= count(wet) {
		t.Errorf("afterwards: %d sets, %d actions", len(in.OwnedSets), count(res))
	}
}

func count(r controller.Result) int { return len(r.Actions) }

// ConfigMaps and Secrets are there before the Pods that mount them, and follow.
func TestConfigs(t *testing.T) {
	dir := t.TempDir()
	k, files := Open(dir), state.OpenWorkloads(dir)
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Data: map[string]string{"k": "1"}}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
	pass(t, k, cluster.Objects{ConfigMaps: []*corev1.ConfigMap{c}, Secrets: []*corev1.Secret{s}})
	next := c.DeepCopy()
	next.Data = map[string]string{"k": "2"}
	pass(t, k, cluster.Objects{ConfigMaps: []*corev1.ConfigMap{next}})
	kept, err := files.Read()
	if err != nil || len(kept.ConfigMaps) != 1 || len(kept.Secrets) > 0 || !maps.Equal(kept.ConfigMaps[0].Data, next.Data) {
		t.Errorf("kept %v, %v", kept, err)
	}
}
