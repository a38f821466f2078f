package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

func TestWorkloadsAreReadWithTheRest(t *testing.T) {
	dir := t.TempDir()
	w := OpenWorkloads(dir)
	_, err1 := w.Deployments.Save(&appsv1.Deployment{ObjectMeta: meta("web")})
	_, err2 := w.Revisions.Save(&appsv1.ControllerRevision{ObjectMeta: meta("db-1")})
	live := OpenLive(dir)
	objs := cluster.Objects{
		ConfigMaps: []*corev1.ConfigMap{{ObjectMeta: meta("settings")}},
		Secrets:    []*corev1.Secret{{ObjectMeta: meta("login"), Data: map[string][]byte{"word": []byte("xyzzy")}}},
	}
	err3 := live.Write(objs, func(*corev1.Pod) bool { return true }, time.Unix(1000, 0))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	got, err := live.Read()
	if err != nil || len(got.Deployments) != 1 || len(got.ConfigMaps) != 1 || len(got.Secrets) != 1 || got.Secrets[0].CreationTimestamp.Unix() != 1000 {
		t.Errorf("Read: %v, %v; Write must have left the Deployment and written the others, dated", got, err)
	}
	for _, name := range WorkloadDirs() {
		if name == "events" || name == "replicasets" || name == "statefulsets" || name == "daemonsets" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// Nobody but the owner may read a Secret, from its first moment.
func TestSecretsArePrivate(t *testing.T) {
	dir := t.TempDir()
	w := OpenWorkloads(dir)
	if _, err := w.Secrets.Save(&corev1.Secret{ObjectMeta: meta("login")}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "secrets", "default_login.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
}

func pod(name string) cluster.Ref { return cluster.MakeRef(cluster.Pod, "default", name) }

func TestEventsCount(t *testing.T) {
	events := OpenEvents(t.TempDir())
	if got, err := events.List(time.Unix(0, 0)); err != nil || len(got) != 0 {
		t.Fatalf("List of nothing: %v, %v", got, err)
	}
	start := time.Unix(1000, 7)
	unhealthy := Happening{Object: pod("web-1"), Warning: true, Reason: "Unhealthy", Message: "Readiness probe failed", Component: "pause"}
	other := unhealthy
	other.UID = "another Pod of that name"
	for i, h := range []Happening{unhealthy, other, unhealthy, unhealthy} {
		if err := events.Note(h, start.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := events.List(start.Add(5 * time.Minute))
	if err != nil || len(got) != 2 {
		t.Fatalf("List: %v, %v; want two events", got, err)
	}
	last := got[1]
	if last.Count != 3 || last.FirstTimestamp.Unix() != 1000 || last.LastTimestamp.Unix() != 1000+180 || last.Type != "Warning" ||
		last.InvolvedObject.Name != "web-1" || last.Source.Component != "pause" {
		t.Errorf("counted event: %+v", last)
	}
	// After an hour it is forgotten, and begins anew.
	later := start.Add(70 * time.Minute)
	if got, _ := events.List(later); len(got) != 0 {
		t.Errorf("after an hour: %v", got)
	}
	if err := events.Note(unhealthy, later); err != nil {
		t.Fatal(err)
	}
	if got, _ := events.List(later); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("begun anew: %v", got)
	}
}

func TestEventsAreBounded(t *testing.T) {
	dir := t.TempDir()
	events := OpenEvents(dir)
	now := time.Now()
	for i := range eventsKept + 2*pruneEvery {
		if err := events.Note(Happening{Object: pod(fmt.Sprintf("web-%d", i)), Reason: "Started"}, now); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "events"))
	if err != nil || len(entries) > eventsKept+pruneEvery || len(entries) < eventsKept {
		t.Errorf("%d events, %v; want about %d", len(entries), err, eventsKept)
	}
}

func TestProblems(t *testing.T) {
	dir := t.TempDir()
	if got, err := ReadProblems(dir); got != nil || err != nil {
		t.Errorf("nothing noted: %v, %v", got, err)
	}
	want := []cluster.Problem{{Position: cluster.Position{File: "a.yaml", Line: 3, Column: 7}, Object: pod("web"), Field: "spec", Message: "wrong"},
		{Message: "a warning", Warning: true}}
	if err := WriteProblems(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadProblems(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := errors.Join(WriteProblems(dir, nil), ForgetProblems(dir), ForgetProblems(dir)); err != nil {
		t.Error(err)
	}
}

// Two who change an object at the same time lose no change.
func TestUpdateLosesNothing(t *testing.T) {
	dir := t.TempDir()
	done := make(chan error)
	const each = 50
	for range 4 {
		go func() {
			d := OpenWorkloads(dir).Deployments
			var err error
			for range each {
				err = errors.Join(err, d.Update(types.NamespacedName{Namespace: "default", Name: "web"}, func(old *appsv1.Deployment, exists bool) (*appsv1.Deployment, bool) {
					if !exists {
						old = &appsv1.Deployment{ObjectMeta: meta("web")}
					}
					old.Generation++
					return old, true
				}))
			}
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	got, err := OpenWorkloads(dir).Deployments.Load(types.NamespacedName{Namespace: "default", Name: "web"})
	if err != nil || got.Generation != 4*each {
		t.Errorf("generation %d, %v; want %d", got.Generation, err, 4*each)
	}
}

// What is deleted while somebody changes it stays deleted.
func TestDeleteWaitsForUpdate(t *testing.T) {
	d := open(t.TempDir())
	name := types.NamespacedName{Namespace: "default", Name: "web"}
	if _, err := d.Save(service("default", "web")); err != nil {
		t.Fatal(err)
	}
	deleted := make(chan error)
	err := d.Update(name, func(old *corev1.Service, _ bool) (*corev1.Service, bool) {
		begun := make(chan struct{})
		go func() {
			close(begun)
			deleted <- d.Delete(name)
		}()
		<-begun
		select {
		case <-deleted:
			t.Error("Delete did not wait")
		case <-time.After(20 * time.Millisecond):
		}
		return old, true
	})
	if err := errors.Join(err, <-deleted); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Load(name); err == nil {
		t.Error("the object is there again")
	}
}
