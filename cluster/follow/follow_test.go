package follow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
)

func services(stateDir string) state.Dir[*corev1.Service] {
	return state.Open(stateDir, "services", func() *corev1.Service { return &corev1.Service{} })
}

func service(name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

func save(t *testing.T, dir string, svc *corev1.Service) {
	t.Helper()
	if _, err := services(dir).Save(svc); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string, kinds ...cluster.Kind) *Directory {
	t.Helper()
	d, err := Open(dir, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// caught are the events of one Catch, as "+web 10.0.0.1", "~web 10.0.0.1 10.0.0.2" and
// "-web 10.0.0.2".
func caught(t *testing.T, d *Directory) []string {
	t.Helper()
	events, err := d.Catch()
	if err != nil {
		t.Errorf("catch: %v", err)
	}
	return texts(events)
}

func texts(events []cluster.Event) []string {
	out := []string{}
	for _, e := range events {
		switch {
		case e.Old == nil:
			out = append(out, "+"+e.Object.Name+" "+address(e.New))
		case e.New == nil:
			out = append(out, "-"+e.Object.Name+" "+address(e.Old))
		default:
			out = append(out, "~"+e.Object.Name+" "+address(e.Old)+" "+address(e.New))
		}
	}
	return out
}

func address(obj metav1.Object) string {
	switch obj := obj.(type) {
	case *corev1.Service:
		return obj.Spec.ClusterIP
	case *corev1.Pod:
		return obj.Status.PodIP
	}
	return "?"
}

func want(t *testing.T, got []string, wanted ...string) {
	t.Helper()
	if !slices.Equal(got, wanted) && len(got)+len(wanted) > 0 {
		t.Errorf("events %q, want %q", got, wanted)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestObjectsComeChangeAndGo(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, service("web", "10.0.0.1"))
	d := open(t, dir, cluster.Service)
	want(t, caught(t, d), "+web 10.0.0.1")
	want(t, caught(t, d))
	save(t, dir, service("web", "10.0.0.2"))
	save(t, dir, service("api", "10.0.0.3"))
	want(t, caught(t, d), "+api 10.0.0.3", "~web 10.0.0.1 10.0.0.2")
	save(t, dir, service("web", "10.0.0.4"))
	save(t, dir, service("web", "10.0.0.2"))
	want(t, caught(t, d))
	must(t, services(dir).Delete(named("web")))
	want(t, caught(t, d), "-web 10.0.0.2")
}

// TestDirectories: the state directory, or what is in it, comes later, goes, and is
// made anew, as down and sync do.
func TestDirectories(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "state")
	d := open(t, dir, cluster.Service)
	want(t, caught(t, d))
	must(t, os.MkdirAll(filepath.Join(top, "a"), 0o755))
	want(t, caught(t, d))
	save(t, dir, service("web", "10.0.0.1"))
	want(t, caught(t, d), "+web 10.0.0.1")
	for i := range 3 {
		must(t, os.RemoveAll(dir))
		want(t, caught(t, d), "-web 10.0.0.1")
		save(t, dir, service("web", "10.0.0.1"))
		want(t, caught(t, d), "+web 10.0.0.1")
		must(t, os.RemoveAll(filepath.Join(dir, "services")))
		save(t, dir, service("web", fmt.Sprintf("10.0.1.%d", i)))
		want(t, caught(t, d), fmt.Sprintf("~web 10.0.0.1 10.0.1.%d", i))
		save(t, dir, service("web", "10.0.0.1"))
		want(t, caught(t, d), fmt.Sprintf("~web 10.0.1.%d 10.0.0.1", i))
	}
	must(t, os.RemoveAll(filepath.Join(top, "a")))
	want(t, caught(t, d), "-web 10.0.0.1")
	save(t, dir, service("web", "10.0.0.5"))
	want(t, caught(t, d), "+web 10.0.0.5")
	must(t, os.Rename(dir, dir+".old"))
	want(t, caught(t, d), "-web 10.0.0.5")
	save(t, dir+".old", service("web", "10.0.0.6"))
	want(t, caught(t, d))
	must(t, os.Rename(dir+".old", dir))
	want(t, caught(t, d), "+web 10.0.0.6")
	save(t, dir, service("web", "10.0.0.7"))
	want(t, caught(t, d), "~web 10.0.0.6 10.0.0.7")
}

// TestNoDirectory: a file stands where a directory should be.
func TestNoDirectory(t *testing.T) {
	top := t.TempDir()
	file := filepath.Join(top, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	dir := filepath.Join(file, "state")
	d := open(t, dir, cluster.Service)
	want(t, caught(t, d))
	must(t, os.Remove(file))
	save(t, dir, service("web", "10.0.0.1"))
	want(t, caught(t, d), "+web 10.0.0.1")
}

// TestDamagedFiles: they are named, once, and their objects stay as they were; files
// that are still written, and others, are no objects.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, service("web", "10.0.0.1"))
	d := open(t, dir, cluster.Service)
	want(t, caught(t, d), "+web 10.0.0.1")
	path := filepath.Join(dir, "services", "default_web.json")
	for _, text := range []string{"{", "", `{"metadata":{"namespace":"default","name":"api"}}`} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		save(t, dir, service("api", "10.0.0.9"))
		events, err := d.Catch()
		damaged, other := state.Damaged(err)
		if len(damaged) != 1 || damaged[0].Path != path || other != nil {
			t.Errorf("%q: error %v, want one that names %s", text, err, path)
		}
		want(t, texts(events), "+api 10.0.0.9")
		must(t, services(dir).Delete(named("api")))
		want(t, caught(t, d), "-api 10.0.0.9")
	}
	must(t, os.WriteFile(filepath.Join(dir, "services", ".new-1"), []byte("{"), 0o600), os.WriteFile(filepath.Join(dir, "services", "README"), nil, 0o600))
	want(t, caught(t, d))
	must(t, os.Remove(path))
	want(t, caught(t, d), "-web 10.0.0.1")
}

// TestOverflow: when more happens than the kernel queues, everything is compared.
func TestOverflow(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	var queued int
	if _, err := fmt.Sscan(string(text), &queued); err != nil || queued > 100_000 {
		t.Skipf("the kernel queues %d events: %v", queued, err)
	}
	dir := t.TempDir()
	save(t, dir, service("web", "10.0.0.1"))
	save(t, dir, service("old", "10.0.0.2"))
	d := open(t, dir, cluster.Service)
	want(t, caught(t, d), "+old 10.0.0.2", "+web 10.0.0.1")
	for i := range queued/2 + 10 { // names take turns lest the kernel join the events
		for j := range 2 {
			must(t, os.WriteFile(filepath.Join(dir, "services", fmt.Sprintf(".%d", (2*i+j)%3)), nil, 0o600))
		}
	}
	save(t, dir, service("web", "10.0.0.3"))
	save(t, dir, service("new", "10.0.0.4"))
	must(t, services(dir).Delete(named("old")))
	want(t, caught(t, d), "+new 10.0.0.4", "-old 10.0.0.2", "~web 10.0.0.1 10.0.0.3")
	save(t, dir, service("web", "10.0.0.5"))
	want(t, caught(t, d), "~web 10.0.0.3 10.0.0.5")
}

// TestPodsOfTwoDirectories: a Pod that moves between them does not go.
func TestPodsOfTwoDirectories(t *testing.T) {
	dir := t.TempDir()
	empty := func() *corev1.Pod { return &corev1.Pod{} }
	local, remote := state.Open(dir, "pods", empty), state.Open(dir, state.RemotePods, empty)
	pod := func(ip string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Status: corev1.PodStatus{PodIP: ip}}
	}
	write := func(d state.Dir[*corev1.Pod], p *corev1.Pod) {
		t.Helper()
		_, err := d.Save(p)
		must(t, err)
	}
	write(remote, pod("10.0.0.1"))
	d := open(t, dir, cluster.Pod, cluster.Service)
	want(t, caught(t, d), "+p 10.0.0.1")
	write(local, pod("10.0.0.1"))
	want(t, caught(t, d))
	write(remote, pod("10.0.0.2"))
	must(t, remote.Delete(named("p")))
	want(t, caught(t, d))
	write(local, pod("10.0.0.3"))
	want(t, caught(t, d), "~p 10.0.0.1 10.0.0.3")
	must(t, local.Delete(named("p")))
	want(t, caught(t, d), "-p 10.0.0.3")
}

func TestWait(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, cluster.Service)
	want(t, caught(t, d))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ended wait: %v", err)
	}
	woken := make(chan error)
	go func() { woken <- d.Wait(t.Context()) }()
	save(t, dir, service("web", "10.0.0.1"))
	select {
	case err := <-woken:
		must(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("a change wakes nobody")
	}
	must(t, d.Wait(t.Context()))
	want(t, caught(t, d), "+web 10.0.0.1")
}
