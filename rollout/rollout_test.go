package rollout

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func ptr[T any](v T) *T { return &v }

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

func deployment(replicas int32, status appsv1.DeploymentStatus) *appsv1.Deployment {
	status.ObservedGeneration = max(status.ObservedGeneration, 1)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1", Generation: 1},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: template("c")}, Status: status}
}

func statefulSet(partition int32, status appsv1.StatefulSetStatus) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "2", Generation: 2}, Status: status}
	s.Spec.Replicas = ptr(int32(3))
	s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	if partition >= 0 {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}
	}
	s.Spec.Template = template("c")
	return s
}

func daemonSet(status appsv1.DaemonSetStatus) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Generation: 1}, Status: status}
	d.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	return d
}

func TestStatus(t *testing.T) {
	late := deployment(3, appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"}}})
	unseen := deployment(3, appsv1.DeploymentStatus{})
	unseen.Generation = 2
	manual := daemonSet(appsv1.DaemonSetStatus{})
	manual.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	tests := []struct {
		obj  metav1.Object
		want string // with "!" before an error, "." after what is done
	}{
		{unseen, "Waiting for deployment spec update to be observed..."},
		{late, `!deployment "web" exceeded its progress deadline`},
		{deployment(3, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1}), `Waiting for deployment "web" rollout to finish: 1 out of 3 new replicas have been updated...`},
		{deployment(3, appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 3}), `Waiting for deployment "web" rollout to finish: 2 old replicas are pending termination...`},
		{deployment(3, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}), `Waiting for deployment "web" rollout to finish: 2 of 3 updated replicas are available...`},
		{deployment(3, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), `deployment "web" successfully rolled out DONE`},
		{statefulSet(0, appsv1.StatefulSetStatus{}), "Waiting for statefulset spec update to be observed..."},
		{statefulSet(0, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 1}), "Waiting for 2 pods to be ready..."},
		{statefulSet(1, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, UpdatedReplicas: 1}), "Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated..."},
		{statefulSet(1, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, UpdatedReplicas: 2}), "partitioned roll out complete: 2 new pods have been updated... DONE"},
		{statefulSet(-1, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, UpdatedReplicas: 2, UpdateRevision: "db-2", CurrentRevision: "db-1"}),
			"waiting for statefulset rolling update to complete 2 pods at revision db-2..."},
		{statefulSet(-1, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, CurrentReplicas: 3, UpdateRevision: "db-2", CurrentRevision: "db-2"}),
			"statefulset rolling update complete 3 pods at revision db-2... DONE"},
		{manual, "!rollout status is only available for RollingUpdate strategy type"},
		{daemonSet(appsv1.DaemonSetStatus{}), "Waiting for daemon set spec update to be observed..."},
		{daemonSet(appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 1}), `Waiting for daemon set "agent" rollout to finish: 0 out of 1 new pods have been updated...`},
		{daemonSet(appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 1, UpdatedNumberScheduled: 1}), `Waiting for daemon set "agent" rollout to finish: 0 of 1 updated pods are available...`},
		{daemonSet(appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberAvailable: 1}), `daemon set "agent" successfully rolled out DONE`},
		{&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "lone"}}, `!replicaset "lone" has no rollout`},
	}
	for _, tt := range tests {
		p, err := Status(tt.obj)
		got := p.Text
		if p.Done {
			got += " DONE"
		}
		if err != nil {
			got = "!" + err.Error()
		}
		if got != tt.want {
			t.Errorf("%T: got  %s\nwant %s", tt.obj, got, tt.want)
		}
	}
}

// kept returns three revisions of a Deployment and of a StatefulSet, among others'.
func kept(t *testing.T) Kept {
	t.Helper()
	var k Kept
	for i, image := range []string{"a", "b", "c"} {
		tpl := template(image)
		data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": tpl}})
		if err != nil {
			t.Fatal(err)
		}
		k.Revisions = append(k.Revisions, &appsv1.ControllerRevision{Revision: int64(i + 1), Data: runtime.RawExtension{Raw: data},
			ObjectMeta: metav1.ObjectMeta{Name: image, OwnerReferences: []metav1.OwnerReference{{UID: "2", Controller: ptr(true)}}}})
		tpl.Labels["pod-template-hash"] = image
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-" + image, OwnerReferences: []metav1.OwnerReference{{UID: "1", Controller: ptr(true)}},
			Annotations: map[string]string{revisionKey: fmt.Sprint(i + 1), causeKey: "because " + image}}}
		rs.Spec.Template = tpl
		k.Sets = append([]*appsv1.ReplicaSet{rs}, k.Sets...)
	}
	stranger := k.Sets[0].DeepCopy()
	stranger.OwnerReferences[0].UID = "9"
	k.Sets = append(k.Sets, stranger)
	return k
}

func TestHistory(t *testing.T) {
	for _, obj := range []metav1.Object{deployment(3, appsv1.DeploymentStatus{}), statefulSet(0, appsv1.StatefulSetStatus{})} {
		history, err := History(obj, kept(t))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range history {
			got = append(got, fmt.Sprintf("%d %s %d", r.Number, r.Template.Spec.Containers[0].Image, len(r.Template.Labels)))
		}
		if diff := cmp.Diff([]string{"1 a 1", "2 b 1", "3 c 1"}, got); diff != "" {
			t.Errorf("%T (-want +got):\n%s", obj, diff)
		}
		if n := Running(obj, history); n != 3 {
			t.Errorf("%T runs revision %d, want 3", obj, n)
		}
	}
	broken := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "x", OwnerReferences: []metav1.OwnerReference{{UID: "2", Controller: ptr(true)}}}, Data: runtime.RawExtension{Raw: []byte(`{}`)}}
	if _, err := History(statefulSet(0, appsv1.StatefulSetStatus{}), Kept{Revisions: []*appsv1.ControllerRevision{broken}}); err == nil {
		t.Error("a revision without a template must be an error")
	}
}

func TestUndo(t *testing.T) {
	tests := []struct {
		to    int64
		pause bool
		want  string
		image string
		cause string
	}{
		{0, false, "rolled back", "b", "because b"},
		{1, false, "rolled back", "a", "because a"},
		{3, false, "skipped rollback (current template already matches revision 3)", "c", ""},
		{9, false, "unable to find specified revision 9 in history", "c", ""},
		{0, true, "you cannot rollback a paused deployment", "c", ""},
	}
	for _, tt := range tests {
		d := deployment(3, appsv1.DeploymentStatus{})
		d.Spec.Paused = tt.pause
		history, err := History(d, kept(t))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Undo(d, history, tt.to)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tt.want) || d.Spec.Template.Spec.Containers[0].Image != tt.image || d.Annotations[causeKey] != tt.cause {
			t.Errorf("to %d: %s, image %s, cause %q; want %+v", tt.to, got, d.Spec.Template.Spec.Containers[0].Image, d.Annotations[causeKey], tt)
		}
	}
	if _, err := Undo(deployment(1, appsv1.DeploymentStatus{}), nil, 0); err == nil || err.Error() != `no rollout history found for deployment "web"` {
		t.Errorf("without a history: %v", err)
	}
}

func TestChanges(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	d := deployment(3, appsv1.DeploymentStatus{})
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"restart", func() error { return Restart(d, now) }, ""},
		{"restart at once", func() error { return Restart(d, now) }, "within this second"},
		{"resume", func() error { return Resume(d) }, "is not paused"},
		{"pause", func() error { return Pause(d) }, ""},
		{"pause again", func() error { return Pause(d) }, "is already paused"},
		{"restart paused", func() error { return Restart(d, now.Add(time.Hour)) }, "can't restart paused deployment"},
		{"resume again", func() error { return Resume(d) }, ""},
		{"scale", func() error { return Scale(d, 5, 3) }, ""},
		{"scale from another number", func() error { return Scale(d, 5, 3) }, "Expected replicas to be 3, was 5"},
		{"scale a DaemonSet", func() error { return Scale(daemonSet(appsv1.DaemonSetStatus{}), 5, -1) }, "cannot be scaled"},
		{"pause a StatefulSet", func() error { return Pause(statefulSet(0, appsv1.StatefulSetStatus{})) }, "not supported"},
		{"restart a ReplicaSet", func() error { return Restart(&appsv1.ReplicaSet{}, now) }, "not supported"},
	}
	for _, s := range steps {
		err := s.do()
		if (err == nil) != (s.want == "") || err != nil && !strings.Contains(err.Error(), s.want) {
			t.Errorf("%s: %v, want %q", s.name, err, s.want)
		}
	}
	if d.Spec.Template.Annotations[restartedKey] != "2026-01-31T12:00:00Z" || *d.Spec.Replicas != 5 || d.Spec.Paused {
		t.Errorf("in the end: %+v", d.Spec)
	}
}
