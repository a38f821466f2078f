package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// world is a node that does what Reconcile decides. It keeps every object as JSON
// does, in whole seconds, and gives Reconcile nothing but what it has kept.
type world struct {
	t    testing.TB
	now  time.Time
	objs map[cluster.Ref]metav1.Object
	// names of Pods that were there once.
	names map[string]bool
	// readyAfter and goneAfter are how many steps a Pod takes for each.
	readyAfter, goneAfter int
	age                   map[types.UID]int
	// broken Pods never become ready.
	broken     func(*corev1.Pod) bool
	maxActions int
	serial     int
	node       map[string]string
	fixed      map[types.NamespacedName]bool
	// check is called after every pass.
	check func(before []*corev1.Pod, res Result)
}

// revisionKind is no kind that a manifest has.
const revisionKind cluster.Kind = "ControllerRevision"

const nodeName = "n1"

func newWorld(t testing.TB) *world {
	return &world{
		t: t, now: time.Date(2030, 1, 2, 3, 4, 5, 600_000_000, time.UTC), objs: map[cluster.Ref]metav1.Object{}, names: map[string]bool{},
		readyAfter: 1, goneAfter: 1, age: map[types.UID]int{},
	}
}

// all returns the objects of a kind, sorted.
func all[T metav1.Object](w *world, kind cluster.Kind) []T {
	var out []T
	for _, ref := range slices.SortedFunc(maps.Keys(w.objs), cluster.Ref.Compare) {
		if ref.Kind == kind {
			out = append(out, w.objs[ref].(T))
		}
	}
	return out
}

func kindOf(t testing.TB, obj metav1.Object) cluster.Kind {
	switch obj.(type) {
	case *corev1.Pod:
		return cluster.Pod
	case *appsv1.ReplicaSet:
		return cluster.ReplicaSet
	case *appsv1.Deployment:
		return cluster.Deployment
	case *appsv1.StatefulSet:
		return cluster.StatefulSet
	case *appsv1.DaemonSet:
		return cluster.DaemonSet
	case *appsv1.ControllerRevision:
		return revisionKind
	}
	t.Fatalf("unexpected object %T", obj)
	return ""
}

func refOf(t testing.TB, obj metav1.Object) cluster.Ref {
	return cluster.MakeRef(kindOf(t, obj), obj.GetNamespace(), obj.GetName())
}

// put keeps an object, as a file would.
func (w *world) put(objs ...metav1.Object) {
	w.t.Helper()
	for _, obj := range objs {
		data, err := json.Marshal(obj)
		if err != nil {
			w.t.Fatal(err)
		}
		kept := map[cluster.Kind]metav1.Object{
			cluster.Pod: &corev1.Pod{}, cluster.ReplicaSet: &appsv1.ReplicaSet{}, cluster.Deployment: &appsv1.Deployment{},
			cluster.StatefulSet: &appsv1.StatefulSet{}, cluster.DaemonSet: &appsv1.DaemonSet{}, revisionKind: &appsv1.ControllerRevision{},
		}[kindOf(w.t, obj)]
		if err := json.Unmarshal(data, kept); err != nil {
			w.t.Fatal(err)
		}
		w.objs[refOf(w.t, obj)] = kept
	}
}

// change edits a kept object; a change of what is wanted counts its generation up.
func change[T metav1.Object](w *world, name string, edit func(T)) {
	w.t.Helper()
	for ref, obj := range w.objs {
		if typed, ok := obj.(T); ok && ref.Name == name {
			edit(typed)
			typed.SetGeneration(typed.GetGeneration() + 1)
			w.put(typed)
			return
		}
	}
	w.t.Fatalf("no object %s", name)
}

func (w *world) pods() []*corev1.Pod { return all[*corev1.Pod](w, cluster.Pod) }

func (w *world) living() []*corev1.Pod {
	return slices.DeleteFunc(w.pods(), func(p *corev1.Pod) bool { return !alive(p) })
}

func (w *world) input() Input {
	in := Input{
		Deployments: all[*appsv1.Deployment](w, cluster.Deployment), StatefulSets: all[*appsv1.StatefulSet](w, cluster.StatefulSet),
		DaemonSets: all[*appsv1.DaemonSet](w, cluster.DaemonSet), Revisions: all[*appsv1.ControllerRevision](w, revisionKind),
		Pods: w.pods(), Node: nodeName, NodeLabels: w.node, Now: w.now, MaxActions: w.maxActions, Fixed: w.fixed,
		Suffix: func() string { w.serial++; return fmt.Sprintf("%05d", w.serial) },
	}
	for _, rs := range all[*appsv1.ReplicaSet](w, cluster.ReplicaSet) {
		if metav1.GetControllerOfNoCopy(rs) == nil {
			in.ReplicaSets = append(in.ReplicaSets, rs)
		} else {
			in.OwnedSets = append(in.OwnedSets, rs)
		}
	}
	return in
}

// pass reconciles once and does what was decided.
func (w *world) pass() Result {
	w.t.Helper()
	before := w.living()
	res := Reconcile(w.input())
	w.do(res)
	if w.check != nil {
		w.check(before, res)
	}
	return res
}

func (w *world) do(res Result) {
	w.t.Helper()
	for _, a := range res.Actions {
		ref := refOf(w.t, a.Object)
		_, exists := w.objs[ref]
		switch {
		case a.Reason == "":
			w.t.Fatalf("%s %s without a reason", a.Op, ref)
		case a.Op == Create && exists:
			w.t.Fatalf("create %s, which is there", ref)
		case a.Op != Create && !exists:
			w.t.Fatalf("%s %s, which is not there", a.Op, ref)
		case a.Op != Delete:
			w.names[ref.Name] = true
			w.put(a.Object)
		case ref.Kind == cluster.Pod:
			pod := w.objs[ref].(*corev1.Pod)
			pod.DeletionTimestamp = &metav1.Time{Time: w.now}
			w.age[pod.UID] = 0
		default:
			delete(w.objs, ref)
		}
	}
	for _, rs := range res.ReplicaSets {
		w.put(rs)
	}
	for _, d := range res.Deployments {
		w.put(d)
	}
	for _, s := range res.StatefulSets {
		w.put(s)
	}
	for _, d := range res.DaemonSets {
		w.put(d)
	}
}

// step lets a second pass: Pods become ready, and those that end are gone.
func (w *world) step() {
	w.now = w.now.Add(time.Second)
	for _, pod := range w.pods() {
		w.age[pod.UID]++
		switch {
		case ending(pod) && w.age[pod.UID] >= w.goneAfter:
			delete(w.objs, refOf(w.t, pod))
		case alive(pod) && pod.Status.Phase == corev1.PodPending && w.age[pod.UID] >= w.readyAfter:
			pod.Status.Phase = corev1.PodRunning
			if w.broken == nil || !w.broken(pod) {
				w.setReady(pod, true)
			}
			w.put(pod)
		}
	}
}

func (w *world) setReady(pod *corev1.Pod, is bool) {
	c := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.now)}
	if is {
		c.Status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{c}
}

// lose is the loss of a pause process.
func (w *world) lose(pods ...*corev1.Pod) {
	for _, pod := range pods {
		pod.Status.Phase, pod.Status.Reason, pod.Status.Conditions = corev1.PodFailed, "PauseProcessGone", nil
		w.put(pod)
	}
}

// idle: a pass that decides nothing.
func idle(res Result) bool {
	return len(res.Actions)+len(res.Deployments)+len(res.ReplicaSets)+len(res.StatefulSets)+len(res.DaemonSets)+len(res.Events) == 0
}

// settle goes on until nothing changes any more, and returns how many passes it took.
func (w *world) settle() int {
	w.t.Helper()
	for n := range 500 {
		quiet := idle(w.pass()) && len(w.living()) == len(w.pods())
		for _, pod := range w.living() {
			quiet = quiet && pod.Status.Phase == corev1.PodRunning
		}
		if quiet {
			return n
		}
		w.step()
	}
	w.t.Fatalf("no end after 500 passes; last: %v", describe(w.pass()))
	return 0
}

// describe says in words what a pass does to Pods and sets.
func describe(res Result) []string {
	var out []string
	for _, a := range res.Actions {
		out = append(out, fmt.Sprintf("%s %T %s: %s", a.Op, a.Object, a.Object.GetName(), a.Reason))
	}
	return out
}

// did counts what a pass does to Pods.
func did(res Result, op Op) int {
	n := 0
	for _, a := range res.Actions {
		if pod, ok := a.Object.(*corev1.Pod); ok && a.Op == op && !(op == Delete && ended(pod)) {
			n++
		}
	}
	return n
}

func podNames(pods []*corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

// template of one container; version tells one from another.
func template(app, version string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.com/" + app + ":" + version, Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
		}}},
	}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func deploy(name string, replicas int32, edits ...func(*appsv1.Deployment)) *appsv1.Deployment {
	deadline := int32(600)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: selector(name), Template: template(name, "v1"), ProgressDeadlineSeconds: &deadline,
		},
	}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

// scale and update are what people do to a Deployment.
func scale(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

func update(version string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "example.com/" + d.Name + ":" + version
	}
}

// versionOf is the version of a Pod's template.
func versionOf(p *corev1.Pod) string {
	_, version, _ := strings.Cut(p.Spec.Containers[0].Image, ":")
	return version
}

func versions(pods []*corev1.Pod) map[string]int {
	out := map[string]int{}
	for _, p := range pods {
		out[versionOf(p)]++
	}
	return out
}

// deployment returns the kept Deployment.
func (w *world) deployment(name string) *appsv1.Deployment {
	return w.objs[cluster.MakeRef(cluster.Deployment, "default", name)].(*appsv1.Deployment)
}
