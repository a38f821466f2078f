package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// marked is a container that writes what happens to it into the test's directory.
func marked(name, script string) corev1.Container {
	return corev1.Container{Name: name, Image: "c:1", Command: []string{"sh", "-c", "echo " + name + " >>/test/order; " + script}}
}

// forever runs until TERM, and says so.
func forever(name string) string {
	return "trap 'echo end of " + name + " >>/test/order; exit 0' TERM; while :; do sleep 0.05; done"
}

// Init containers run one after the other, sidecars from their turn on; sidecars
// end last, in reverse.
func TestOrderOfContainers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := program("p")
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []corev1.Container{
		marked("first", "sleep 0.2; echo first is through >>/test/order"),
		marked("side-a", forever("side-a")),
		marked("second", "sleep 0.1; echo second is through >>/test/order"),
		marked("side-b", forever("side-b")),
	}
	p.Spec.InitContainers[1].RestartPolicy, p.Spec.InitContainers[3].RestartPolicy = &always, &always
	for _, i := range []int{1, 3} {
		name := p.Spec.InitContainers[i].Name
		p.Spec.InitContainers[i].StartupProbe = execProbe("grep", "-qx", name, "/test/order")
		p.Spec.InitContainers[i].StartupProbe.FailureThreshold = 10
	}
	p.Spec.Containers = []corev1.Container{marked("main", forever("main"))}
	p.Spec.Containers[0].ReadinessProbe = execProbe("grep", "-qx", "main", "/test/order")
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "until grep -qx main /test/order; do sleep 0.01; done; echo postStart >>/test/order"}}},
		PreStop:   &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "echo preStop >>/test/order"}}},
	}
	dir := onHost(t, p)
	l.sync(p)
	st := l.others("p").Status
	if len(st.InitContainerStatuses) != 4 || !ready(l.others("p")) || st.InitContainerStatuses[0].State.Terminated == nil || st.InitContainerStatuses[1].State.Running == nil {
		t.Errorf("status %+v", st)
	}
	l.sync()
	b, err := os.ReadFile(filepath.Join(dir, "order"))
	want := "first, first is through, side-a, second, second is through, side-b, main, postStart, preStop, end of main, end of side-b, end of side-a"
	if got := strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ", "); err != nil || got != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}

// A Pod of which an init container keeps failing waits, and the pass says so.
func TestInitContainerFails(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := web("web-1")
	p.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "c:1", Command: []string{"sh", "-c", "echo no database; exit 1"}}}
	if err := l.try(p); err == nil || !strings.Contains(err.Error(), "Pod default/web-1: container setup: Error: exited with status 1: no database") {
		t.Errorf("got %v", err)
	}
	st := l.others("web-1").Status
	if st.Phase != corev1.PodPending || st.ContainerStatuses[0].State.Waiting.Reason != "PodInitializing" || st.InitContainerStatuses[0].State.Waiting.Reason != reasonCrashLoop {
		t.Errorf("status %+v", st)
	}
	l.sync(p)
}

// A Pod that has done its work is done, and its sidecars end with it.
func TestPodThatHasDoneItsWork(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := program("job", "sleep", "0.2")
	p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "c:1", Command: []string{"sleep", "1000"}, RestartPolicy: &always}}
	l.sync(p)
	poll(t, "its end", func() bool { return l.others("job").Status.Phase == corev1.PodSucceeded })
	if side := l.report("job").Containers[0]; side.Phase != exited {
		t.Errorf("the sidecar: %+v", side)
	}
	if !l.pause("job").alive() {
		t.Error("the Pod is gone")
	}
	l.sync(p)
}
