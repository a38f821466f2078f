package controller

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

func bareSet(name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector(name), Template: template(name, "v1")},
	}
}

func orphan(name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}},
		Spec:       template(app, "v0").Spec, Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// TestAdoption: a set takes in orphans that match, but not the Pods of a manifest,
// and not what another has.
func TestAdoption(t *testing.T) {
	w := newWorld(t)
	fixed := orphan("fixed", "web")
	w.fixed = map[types.NamespacedName]bool{{Namespace: "default", Name: "fixed"}: true}
	w.put(bareSet("web", 3), orphan("stray", "web"), orphan("other", "db"), fixed)
	w.settle()
	owners := map[string]string{}
	for _, pod := range w.living() {
		owners[pod.Name] = ownerRef(pod).Name
	}
	want := map[string]string{"stray": "web", "other": "", "fixed": "", "web-00001": "web", "web-00002": "web"}
	if diff := cmp.Diff(want, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if s := w.objs[cluster.MakeRef(cluster.ReplicaSet, "default", "web")].(*appsv1.ReplicaSet).Status; s.Replicas != 3 || s.AvailableReplicas != 3 {
		t.Errorf("status %+v", s)
	}
}

// TestRelease: a Pod whose labels people change is let go, not ended, and replaced.
func TestRelease(t *testing.T) {
	w := newWorld(t)
	w.put(deploy("web", 2))
	w.settle()
	pod := w.living()[0]
	pod.Labels["app"] = "debug"
	w.put(pod)
	w.settle()
	if n := len(w.living()); n != 3 {
		t.Errorf("%d Pods, want 2 and the one let go", n)
	}
	kept := w.objs[refOf(t, pod)].(*corev1.Pod)
	if len(kept.OwnerReferences) != 0 || !alive(kept) {
		t.Errorf("the Pod let go: owners %v, ending %v", kept.OwnerReferences, ending(kept))
	}
}

// TestOrphanedSetIsAdopted: a Deployment that comes takes in the set that its
// predecessor left, and its Pods live on.
func TestOrphanedSetIsAdopted(t *testing.T) {
	w := newWorld(t)
	w.put(deploy("web", 3))
	w.settle()
	before := podNames(w.living())
	for _, rs := range all[*appsv1.ReplicaSet](w, cluster.ReplicaSet) {
		rs.OwnerReferences = nil
		w.put(rs)
	}
	w.put(deploy("web", 3, func(d *appsv1.Deployment) { d.UID = "another" }))
	w.settle()
	if diff := cmp.Diff(before, podNames(w.living())); diff != "" {
		t.Errorf("Pods (-before +after):\n%s", diff)
	}
	if rs := all[*appsv1.ReplicaSet](w, cluster.ReplicaSet); len(rs) != 1 || ownerRef(rs[0]).Name != "web" {
		t.Errorf("%d sets", len(rs))
	}
}

// TestOwnerGone: with its owner goes all that it had, and nothing else.
func TestOwnerGone(t *testing.T) {
	for _, ref := range []cluster.Ref{
		cluster.MakeRef(cluster.Deployment, "default", "web"), cluster.MakeRef(cluster.StatefulSet, "default", "db"),
		cluster.MakeRef(cluster.DaemonSet, "default", "agent"), cluster.MakeRef(cluster.ReplicaSet, "default", "bare"),
	} {
		t.Run(string(ref.Kind), func(t *testing.T) {
			w := newWorld(t)
			job := orphan("job-1", "job")
			job.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "job", UID: "job", Controller: new(true)}}
			w.put(deploy("web", 2), stateful("db", 2), daemonSet("agent"), bareSet("bare", 1), orphan("lone", "lone"), job)
			w.settle()
			delete(w.objs, ref)
			w.settle()
			for kept, obj := range w.objs {
				if strings.HasPrefix(kept.Name, ref.Name) {
					t.Errorf("%s is left", refOf(t, obj))
				}
			}
			if n := len(w.objs); n == 0 || w.objs[refOf(t, job)] == nil {
				t.Error("what others own went too")
			}
			if res := w.pass(); !idle(res) {
				t.Errorf("not at rest: %v", describe(res))
			}
		})
	}
}

// TestSelectorMustMatchTemplate: else every Pod made would be one that does not count.
func TestSelectorMustMatchTemplate(t *testing.T) {
	w := newWorld(t)
	d := deploy("web", 2)
	d.Spec.Selector = selector("other")
	s := stateful("db", 1)
	s.Spec.Selector = nil
	w.put(d, s, daemonSet("agent", func(d *appsv1.DaemonSet) { d.Spec.Selector = &metav1.LabelSelector{} }))
	res := w.pass()
	if len(res.Problems) != 3 || len(res.Actions) != 0 {
		t.Errorf("problems %v, actions %v", res.Problems, describe(res))
	}
}

// TestUndefaulted: objects that nobody has completed are no reason to panic.
func TestUndefaulted(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "x"}
	res := Reconcile(Input{
		Deployments: []*appsv1.Deployment{{ObjectMeta: meta}}, StatefulSets: []*appsv1.StatefulSet{{ObjectMeta: meta}},
		DaemonSets: []*appsv1.DaemonSet{{ObjectMeta: meta}}, ReplicaSets: []*appsv1.ReplicaSet{{ObjectMeta: meta}},
		Pods: []*corev1.Pod{{}}, Revisions: []*appsv1.ControllerRevision{{}},
	})
	if len(res.Actions) != 0 || len(res.Problems) != 4 {
		t.Errorf("actions %v, problems %v", describe(res), res.Problems)
	}
	d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector("x"), Template: template("x", "v1")}}
	if res := Reconcile(Input{Deployments: []*appsv1.Deployment{d}}); did(res, Create) != 1 {
		t.Errorf("a Deployment without replicas: %v, want one Pod", describe(res))
	}
}

// TestOf: looked at alone, an owner gets the same decisions as among all.
func TestOf(t *testing.T) {
	w := newWorld(t)
	w.put(deploy("web", 3), deploy("api", 2), stateful("db", 2), daemonSet("agent"), bareSet("bare", 2), orphan("stray", "bare"))
	w.settle()
	change(w, "web", update("v2"))
	change(w, "db", updateStateful("v2"))
	w.lose(w.living()...)
	delete(w.objs, cluster.MakeRef(cluster.Deployment, "default", "api"))
	whole := Reconcile(w.input())
	var parts []string
	for _, ref := range []cluster.Ref{
		cluster.MakeRef(cluster.Deployment, "default", "web"), cluster.MakeRef(cluster.Deployment, "default", "api"),
		cluster.MakeRef(cluster.StatefulSet, "default", "db"), cluster.MakeRef(cluster.DaemonSet, "default", "agent"),
		cluster.MakeRef(cluster.ReplicaSet, "default", "bare"),
	} {
		parts = append(parts, actionsOf(t, Reconcile(w.input().Of(ref)))...)
	}
	want := actionsOf(t, whole)
	slices.Sort(want)
	slices.Sort(parts)
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Errorf("all at once and one by one (-all +alone):\n%s", diff)
	}
	for _, rs := range w.input().OwnedSets {
		if ownerRef(rs).Name != "web" {
			continue
		}
		alone := Reconcile(w.input().Of(refOf(t, rs)))
		if got := actionsOf(t, alone); len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "delete *v1.ReplicaSet") }) {
			t.Errorf("the set of a Deployment, looked at alone: %v", got)
		}
	}
}

// actionsOf describes actions without the endings of new names.
func actionsOf(t *testing.T, res Result) []string {
	var out []string
	for _, a := range res.Actions {
		name := a.Object.GetName()
		if pod, ok := a.Object.(*corev1.Pod); ok && a.Op == Create && pod.GenerateName != "" {
			name = pod.GenerateName
		}
		out = append(out, strings.Join([]string{string(a.Op), string(kindOf(t, a.Object)), name, a.Owner.String(), a.Reason}, " "))
	}
	return out
}

// TestFirstToGo: the ranking, one reason after the other.
func TestFirstToGo(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := func(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
		p := orphan(name, "web")
		p.Spec.NodeName, p.Status.Phase, p.CreationTimestamp = nodeName, corev1.PodRunning, metav1.NewTime(now)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
		for _, edit := range edits {
			edit(p)
		}
		return p
	}
	cost := func(s string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{deletionCost: s} }
	}
	younger := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(time.Hour)) }
	pods := []*corev1.Pod{
		pod("i-kept", cost("10")),
		pod("h-oldest"),
		pod("g-newer", younger),
		pod("f-restarted", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}} }),
		pod("e-ready-last", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(time.Minute)) }),
		pod("d-cheap", cost("-5")),
		pod("c-not-ready", func(p *corev1.Pod) { p.Status.Conditions = nil }),
		pod("b-pending", func(p *corev1.Pod) { p.Status.Phase, p.Status.Conditions = corev1.PodPending, nil }),
		pod("a-unassigned", func(p *corev1.Pod) { p.Spec.NodeName = "" }),
	}
	want := []string{"a-unassigned", "b-pending", "c-not-ready", "d-cheap", "e-ready-last", "f-restarted", "g-newer", "h-oldest", "i-kept"}
	if diff := cmp.Diff(want, podNames(firstToGo(pods))); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestTemplateHash: a golden value, so that an upgrade of toyproxy rolls nothing out.
func TestTemplateHash(t *testing.T) {
	tmpl := template("web", "v1")
	one := int32(1)
	got := []string{templateHash(&tmpl, nil), templateHash(&tmpl, &one)}
	if diff := cmp.Diff([]string{"7cd545744b", "b75ddcfc8"}, got); diff != "" {
		t.Errorf("hashes (-want +got):\n%s", diff)
	}
	if a, b := canonical([]byte(`{"b":{},"a":1,"metadata":{"creationTimestamp":null}}`)), canonical([]byte(`{"a":1}`)); string(a) != string(b) {
		t.Errorf("%s and %s differ", a, b)
	}
}

// hashed are names of ReplicaSets and of their Pods.
var hashed = regexp.MustCompile(`web-[a-z0-9-]+`)

// TestEvents: what kubectl get events shows of a rollout.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	w.put(deploy("web", 1, rolling("1", "0")))
	var got []string
	w.check = func(_ []*corev1.Pod, res Result) {
		for _, e := range res.Events {
			name := e.Object.Name
			if e.Object.Kind == cluster.ReplicaSet {
				name = "web-…"
			}
			got = append(got, string(e.Object.Kind)+"/"+name+" "+e.Reason+": "+hashed.ReplaceAllString(e.Message, "web-…"))
		}
	}
	w.settle()
	change(w, "web", update("v2"))
	w.settle()
	want := []string{
		"Deployment/web ScalingReplicaSet: Scaled up replica set web-… from 0 to 1",
		"ReplicaSet/web-… SuccessfulCreate: Created pod: web-…",
		"Deployment/web ScalingReplicaSet: Scaled up replica set web-… from 0 to 1",
		"ReplicaSet/web-… SuccessfulCreate: Created pod: web-…",
		"Deployment/web ScalingReplicaSet: Scaled down replica set web-… from 1 to 0",
		"ReplicaSet/web-… SuccessfulDelete: Deleted pod: web-…",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
