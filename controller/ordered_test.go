package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

func stateful(name string, replicas int32, edits ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: selector(name), Template: template(name, "v1"), ServiceName: name + "-peers",
		},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func updateStateful(version string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Image = "example.com/" + s.Name + ":" + version
	}
}

func scaleStateful(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n }
}

func (w *world) stateful(name string) *appsv1.StatefulSet {
	return w.objs[cluster.MakeRef(cluster.StatefulSet, "default", name)].(*appsv1.StatefulSet)
}

// journal records what passes do to Pods: "+db-0", "-db-2".
func (w *world) journal() *[]string {
	var log []string
	w.check = func(_ []*corev1.Pod, res Result) {
		for _, a := range res.Actions {
			pod, ok := a.Object.(*corev1.Pod)
			switch {
			case ok && a.Op == Create:
				log = append(log, "+"+pod.Name)
			case ok && a.Op == Delete:
				log = append(log, "-"+pod.Name)
			}
		}
	}
	return &log
}

// perPass is how many Pods each pass that touched any did touch.
func (w *world) perPass() *[]int {
	var counts []int
	w.check = func(_ []*corev1.Pod, res Result) {
		if n := did(res, Create) + did(res, Delete); n > 0 {
			counts = append(counts, n)
		}
	}
	return &counts
}

// TestOrderedScale: up from the lowest, each when the one before is ready; down from
// the highest, each when the one before is gone.
func TestOrderedScale(t *testing.T) {
	w := newWorld(t)
	w.put(stateful("db", 3))
	log := w.journal()
	w.settle()
	change(w, "db", scaleStateful(5))
	w.settle()
	change(w, "db", scaleStateful(2))
	w.settle()
	if diff := cmp.Diff(strings.Fields("+db-0 +db-1 +db-2 +db-3 +db-4 -db-4 -db-3 -db-2"), *log); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	w = newWorld(t)
	w.put(stateful("db", 3))
	counts := w.perPass()
	w.settle()
	change(w, "db", scaleStateful(1))
	w.settle()
	if diff := cmp.Diff([]int{1, 1, 1, 1, 1}, *counts); diff != "" {
		t.Errorf("Pods touched by each pass (-want +got):\n%s", diff)
	}
}

func TestParallelScale(t *testing.T) {
	w := newWorld(t)
	w.put(stateful("db", 4, parallel))
	counts := w.perPass()
	w.settle()
	change(w, "db", scaleStateful(1))
	w.settle()
	if diff := cmp.Diff([]int{4, 3}, *counts); diff != "" {
		t.Errorf("Pods touched by each pass (-want +got):\n%s", diff)
	}
}

// TestStatefulIdentity: names, labels, host name and subdomain; a lost Pod comes back
// under its own name.
func TestStatefulIdentity(t *testing.T) {
	w := newWorld(t)
	w.put(stateful("db", 2, func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }))
	w.settle()
	pods := w.living()
	if diff := cmp.Diff([]string{"db-5", "db-6"}, podNames(pods)); diff != "" {
		t.Fatalf("names (-want +got):\n%s", diff)
	}
	p := pods[1]
	want := map[string]string{
		"app": "db", "statefulset.kubernetes.io/pod-name": "db-6", "apps.kubernetes.io/pod-index": "6",
		"controller-revision-hash": w.stateful("db").Status.UpdateRevision,
	}
	if diff := cmp.Diff(want, p.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if p.Spec.Hostname != "db-6" || p.Spec.Subdomain != "db-peers" || p.Spec.NodeName != nodeName {
		t.Errorf("host name %q, subdomain %q, node %q", p.Spec.Hostname, p.Spec.Subdomain, p.Spec.NodeName)
	}
	w.lose(p)
	w.settle()
	back := w.living()
	if diff := cmp.Diff([]string{"db-5", "db-6"}, podNames(back)); diff != "" {
		t.Errorf("names after a loss (-want +got):\n%s", diff)
	}
	if back[1].UID == p.UID {
		t.Error("the Pod that came back has the UID of the one that was lost")
	}
}

// TestStatefulUpdate goes from the highest place down, one at a time, and stops at
// the partition; a Pod lost below it comes back as it was.
func TestStatefulUpdate(t *testing.T) {
	w := newWorld(t)
	two := int32(2)
	w.put(stateful("db", 4))
	w.settle()
	log := w.journal()
	change(w, "db", func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &two}
	})
	change(w, "db", updateStateful("v2"))
	w.settle()
	if diff := cmp.Diff(strings.Fields("-db-3 +db-3 -db-2 +db-2"), *log); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	w.lose(w.living()[0])
	w.settle()
	if diff := cmp.Diff([]string{"v1", "v1", "v2", "v2"}, versionsInOrder(w.living())); diff != "" {
		t.Errorf("versions after a loss below the partition (-want +got):\n%s", diff)
	}
	s := w.stateful("db").Status
	if s.CurrentReplicas != 2 || s.UpdatedReplicas != 2 || s.CurrentRevision == s.UpdateRevision {
		t.Errorf("status with a partition: %+v", s)
	}
	change(w, "db", func(s *appsv1.StatefulSet) { *s.Spec.UpdateStrategy.RollingUpdate.Partition = 0 })
	w.settle()
	s = w.stateful("db").Status
	if s.CurrentReplicas != 4 || s.UpdatedReplicas != 4 || s.CurrentRevision != s.UpdateRevision || s.AvailableReplicas != 4 {
		t.Errorf("status at the end: %+v", s)
	}
}

func versionsInOrder(pods []*corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, versionOf(p))
	}
	return out
}

// TestStatefulMaxUnavailable: so many go together, and no more.
func TestStatefulMaxUnavailable(t *testing.T) {
	w := newWorld(t)
	w.put(stateful("db", 6, parallel, func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: share("25%")}
	}))
	w.settle()
	w.check = func(_ []*corev1.Pod, res Result) {
		if n := serving(w.living()); n < 4 {
			t.Fatalf("%d serve, want 4 at least (25%% of 6, rounded up, may be missing)", n)
		}
	}
	change(w, "db", updateStateful("v2"))
	w.settle()
	if diff := cmp.Diff(map[string]int{"v2": 6}, versions(w.living())); diff != "" {
		t.Errorf("versions at the end (-want +got):\n%s", diff)
	}
}

// TestStatefulOnDelete: nothing is replaced but what somebody ends.
func TestStatefulOnDelete(t *testing.T) {
	w := newWorld(t)
	w.put(stateful("db", 3, func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }))
	w.settle()
	change(w, "db", updateStateful("v2"))
	w.settle()
	pod := w.living()[1]
	pod.DeletionTimestamp = &metav1.Time{Time: w.now}
	w.settle()
	if diff := cmp.Diff([]string{"v1", "v2", "v1"}, versionsInOrder(w.living())); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestStatefulBrokenUpdate: a version that never becomes ready stops the update; the
// correction gets through though the order would wait for the broken Pod for ever.
func TestStatefulBrokenUpdate(t *testing.T) {
	for _, mended := range []string{"v3", "v1"} {
		t.Run(mended, func(t *testing.T) {
			w := newWorld(t)
			w.broken = func(p *corev1.Pod) bool { return versionOf(p) == "v2" }
			w.put(stateful("db", 3))
			w.settle()
			change(w, "db", updateStateful("v2"))
			w.settle()
			if diff := cmp.Diff([]string{"v1", "v1", "v2"}, versionsInOrder(w.living())); diff != "" {
				t.Errorf("versions while it stands still (-want +got):\n%s", diff)
			}
			change(w, "db", updateStateful(mended))
			w.settle()
			if diff := cmp.Diff(map[string]int{mended: 3}, versions(w.living())); diff != "" {
				t.Errorf("versions at the end (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRevisions: every template once, the number of one that comes back grows, and
// old ones are forgotten beyond the limit.
func TestRevisions(t *testing.T) {
	w := newWorld(t)
	limit := int32(1)
	w.put(stateful("db", 1, func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = &limit }))
	w.settle()
	numbers := func() map[string]int64 {
		out := map[string]int64{}
		for _, rev := range all[*appsv1.ControllerRevision](w, revisionKind) {
			tmpl, err := templateOf(rev)
			if err != nil {
				t.Fatal(err)
			}
			out[versionOf(&corev1.Pod{Spec: tmpl.Spec})] = rev.Revision
		}
		return out
	}
	for _, step := range []struct {
		version string
		want    map[string]int64
	}{
		{"v2", map[string]int64{"v1": 1, "v2": 2}},
		{"v1", map[string]int64{"v1": 3, "v2": 2}},
		{"v3", map[string]int64{"v1": 3, "v3": 4}},
	} {
		change(w, "db", updateStateful(step.version))
		w.settle()
		if diff := cmp.Diff(step.want, numbers()); diff != "" {
			t.Errorf("numbers after %s (-want +got):\n%s", step.version, diff)
		}
	}
}

// TestVolumeClaimsAreRefused: no Pod is made that would lose what it is to keep.
func TestVolumeClaimsAreRefused(t *testing.T) {
	w := newWorld(t)
	claims := func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	}
	w.put(stateful("db", 2, claims))
	w.settle()
	if n := len(w.living()); n != 2 {
		t.Errorf("%d Pods with a claim that nobody mounts, want 2", n)
	}
	w = newWorld(t)
	w.put(stateful("db", 2, claims, func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}))
	res := w.pass()
	if len(res.Problems) != 1 || res.Problems[0].Field != "spec.volumeClaimTemplates" || len(res.Actions) != 0 {
		t.Errorf("problems %v, actions %v", res.Problems, describe(res))
	}
}

// TestNameOfAnother: a Pod of somebody else under a name of the set is reported, and
// left alone.
func TestNameOfAnother(t *testing.T) {
	w := newWorld(t)
	w.put(stateful("db", 2), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-1", Labels: map[string]string{"app": "mine"}}})
	var res Result
	for range 5 {
		res = w.pass()
		w.step()
	}
	if len(res.Problems) != 1 || !strings.Contains(res.Problems[0].Message, "db-1") {
		t.Errorf("problems %v", res.Problems)
	}
	if got := podNames(w.living()); !slices.Equal(got, []string{"db-0", "db-1"}) {
		t.Errorf("Pods %v", got)
	}
}

func daemonSet(name string, edits ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec:       appsv1.DaemonSetSpec{Selector: selector(name), Template: template(name, "v1")},
	}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

func updateDaemon(version string) func(*appsv1.DaemonSet) {
	return func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.Containers[0].Image = "example.com/" + d.Name + ":" + version
	}
}

func surging(d *appsv1.DaemonSet) {
	d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: share("50%"), MaxUnavailable: share("0")}
}

func onDelete(d *appsv1.DaemonSet) {
	d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
}

// TestDaemonSet: one Pod on the node, replaced when it is lost or its template
// changes, as the strategy says.
func TestDaemonSet(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(*appsv1.DaemonSet)
		want   string // of the update, with names by their order of making
		served bool   // one serves in every pass of the update
	}{
		{"rolling", func(*appsv1.DaemonSet) {}, "-1 +2", false},
		{"surge", surging, "+2 -1", true},
		{"on delete", onDelete, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.put(daemonSet("agent", c.edit))
			w.settle()
			if s := w.objs[cluster.MakeRef(cluster.DaemonSet, "default", "agent")].(*appsv1.DaemonSet).Status; s.NumberAvailable != 1 || s.DesiredNumberScheduled != 1 || s.UpdatedNumberScheduled != 1 {
				t.Errorf("status %+v", s)
			}
			log := w.journal()
			change(w, "agent", updateDaemon("v2"))
			lowest := int32(1)
			for range 10 {
				w.pass()
				lowest = min(lowest, serving(w.living()))
				w.step()
			}
			got := strings.NewReplacer("agent-0000", "").Replace(strings.Join(*log, " "))
			if got != c.want || (lowest == 1) != c.served {
				t.Errorf("update: %q with %d serving at the least, want %q", got, lowest, c.want)
			}
			w.lose(w.living()...)
			w.settle()
			if diff := cmp.Diff(map[string]int{"v2": 1}, versions(w.living())); diff != "" {
				t.Errorf("versions after a loss (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDaemonSetSurgeWaits: the old Pod stays for as long as the new one is not ready.
func TestDaemonSetSurgeWaits(t *testing.T) {
	w := newWorld(t)
	w.broken = func(p *corev1.Pod) bool { return versionOf(p) == "v2" }
	w.put(daemonSet("agent", surging))
	w.settle()
	change(w, "agent", updateDaemon("v2"))
	w.settle()
	if diff := cmp.Diff(map[string]int{"v1": 1, "v2": 1}, versions(w.living())); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestNodeWants: nodeName, nodeSelector and required node affinity.
func TestNodeWants(t *testing.T) {
	n := node{"n1", map[string]string{"disk": "ssd", "cores": "8"}}
	term := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	affine := func(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}}
	}
	field := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}}}
	for i, c := range []struct {
		spec corev1.PodSpec
		want bool
	}{
		{corev1.PodSpec{}, true},
		{corev1.PodSpec{NodeName: "n1"}, true},
		{corev1.PodSpec{NodeName: "n2"}, false},
		{corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}, true},
		{corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd", "gpu": "yes"}}, false},
		{affine(term("disk", "In", "hdd", "ssd")), true},
		{affine(term("disk", "NotIn", "hdd", "ssd")), false},
		{affine(term("gpu", "NotIn", "a100")), true},
		{affine(term("disk", "Exists")), true},
		{affine(term("gpu", "Exists")), false},
		{affine(term("gpu", "DoesNotExist")), true},
		{affine(term("cores", "Gt", "4")), true},
		{affine(term("cores", "Lt", "8")), false},
		{affine(term("gpu", "Gt", "4")), false},
		{affine(term("gpu", "Exists"), term("disk", "Exists")), true},
		{affine(corev1.NodeSelectorTerm{}), false},
		{affine(field), true},
	} {
		if got, err := n.wants(&c.spec); err != nil || got != c.want {
			t.Errorf("case %d: %v (%v), want %v", i, got, err, c.want)
		}
	}
	bad := affine(term("disk", "Near", "here"))
	if _, err := n.wants(&bad); err == nil {
		t.Error("an unknown operator is accepted")
	}
}

// TestDaemonSetElsewhere: a node that is not wanted has no Pod, and loses the one it
// has.
func TestDaemonSetElsewhere(t *testing.T) {
	w := newWorld(t)
	w.node = map[string]string{"role": "edge"}
	w.put(daemonSet("agent", func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.NodeSelector = map[string]string{"role": "edge", "kubernetes.io/os": "linux", "kubernetes.io/hostname": nodeName}
	}))
	w.settle()
	if len(w.living()) != 1 {
		t.Fatalf("%d Pods on a node that is wanted", len(w.living()))
	}
	w.node = nil
	w.settle()
	if len(w.living()) != 0 {
		t.Error(fmt.Sprint("Pods on a node that is not wanted: ", podNames(w.living())))
	}
}
