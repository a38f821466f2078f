package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// onHost gives a Pod a directory of this test in all its containers, at /test.
func onHost(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	dir := t.TempDir()
	p.Spec.Volumes = []corev1.Volume{{Name: "test", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].VolumeMounts = []corev1.VolumeMount{{Name: "test", MountPath: "/test"}}
		}
	}
	return dir
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func execProbe(command ...string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}, PeriodSeconds: 1, FailureThreshold: 1}
}

// others is the Pod as other processes see it.
func (l *lab) others(name string) *corev1.Pod {
	l.t.Helper()
	kept, err := l.state.List()
	if err != nil {
		l.t.Fatal(err)
	}
	i := slices.IndexFunc(kept, func(p *corev1.Pod) bool { return p.Name == name })
	if i < 0 {
		l.t.Fatalf("no Pod %s", name)
	}
	return kept[i]
}

// A container whose liveness probe fails is ended and started again in its Pod.
func TestFailingLivenessProbeRestarts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cfg.Backoff = Backoff{Initial: 100 * time.Millisecond}
	p := web("web-1")
	dir := onHost(t, p)
	p.Spec.Containers[0].LivenessProbe = execProbe("sh", "-c", "rm /test/stuck 2>/dev/null || exit 0; echo it is stuck; exit 7")
	before := l.sync(p)[0]
	pause := l.pause("web-1")
	touch(t, filepath.Join(dir, "stuck"))
	poll(t, "the restart", func() bool { return l.report("web-1").Containers[0].Restarts > 0 })
	poll(t, "the Pod to be ready", func() bool { return l.report("web-1").Containers[0].Ready && ready(l.others("web-1")) })
	after := l.others("web-1")
	if l.pause("web-1") != pause || after.Status.PodIP != before.Status.PodIP {
		t.Errorf("another Pod: %+v", after.Status)
	}
	ask(t, "tcp", "10.244.0.2:8080", "x\n")
	events, err := state.OpenEvents(l.cfg.StateDir).List(time.Now())
	var told []string
	for _, e := range events {
		told = append(told, e.Type+" "+e.Reason+" "+e.Message)
	}
	for _, want := range []string{
		"Normal Started container main: it runs",
		"Warning Unhealthy container main: liveness probe: exit status 7: it is stuck",
		"Normal Killing container main: it is ended: its liveness probe failed, 1 in a row: exit status 7: it is stuck",
	} {
		if !slices.Contains(told, want) {
			t.Errorf("events: %s, %v; want %q", strings.Join(told, "; "), err, want)
		}
	}
}

// A Pod whose readiness probe fails is not ready, runs on, and is ready again.
func TestFailingReadinessProbe(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := web("web-1")
	dir := onHost(t, p)
	p.Spec.Containers[0].ReadinessProbe = execProbe("test", "-e", "/test/ready")
	if err := l.try(p); err == nil || !strings.Contains(err.Error(), "Pod default/web-1: container main: Unhealthy: readiness probe: exit status 1") {
		t.Errorf("not ready: %v", err)
	}
	pid := l.report("web-1").Containers[0].Pid
	for range 2 {
		touch(t, filepath.Join(dir, "ready"))
		poll(t, "the Pod to be ready", func() bool { return ready(l.others("web-1")) })
		if err := os.Remove(filepath.Join(dir, "ready")); err != nil {
			t.Fatal(err)
		}
		poll(t, "the Pod not to be ready", func() bool { return !ready(l.others("web-1")) })
	}
	if c := l.report("web-1").Containers[0]; c.Pid != pid || c.Restarts > 0 {
		t.Errorf("container %+v", c)
	}
	plan, err := l.Plan(t.Context(), []*corev1.Pod{p})
	if err != nil || ready(plan.Pods[0]) || len(plan.Changes()) > 0 {
		t.Errorf("planned %+v, %v", plan.Pods[0].Status, err)
	}
	if got := fmt.Sprint(plan.Problems); !strings.Contains(got, "container main is not ready (readiness probe: exit status 1)") {
		t.Errorf("problems %s", got)
	}
}

// A probe that cannot be asked is named at once, and the container is left alone.
func TestProbeThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p, q := program("p", "sleep", "1000"), program("q", "sleep", "1000")
	p.Spec.Containers[0].ReadinessProbe = execProbe("no-such-program")
	q.Spec.Containers[0].LivenessProbe = execProbe("no-such-program")
	if err := l.try(p, q); err == nil || !strings.Contains(err.Error(), `Pod default/p: container main: Unhealthy: readiness probe: program not found on this host: there is no "no-such-program" in PATH`) || strings.Contains(err.Error(), "default/q") {
		t.Errorf("got %v", err)
	}
	time.Sleep(1200 * time.Millisecond)
	if c := l.report("q").Containers[0]; c.Restarts > 0 || !c.Ready {
		t.Errorf("container %+v", c)
	}
	events, _ := state.OpenEvents(l.cfg.StateDir).List(time.Now())
	if !slices.ContainsFunc(events, func(e *corev1.Event) bool {
		return e.InvolvedObject.Name == "q" && e.Reason == "ProbeError" && e.Count == 1
	}) {
		t.Errorf("no event says so: %v", events)
	}
}

// Probes over the network reach the Pod at its own address.
func TestNetworkProbesOfAPod(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := web("web-1")
	c := &p.Spec.Containers[0]
	c.Ports[0].Name = "http"
	probe := func(h corev1.ProbeHandler) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: h, PeriodSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1, TimeoutSeconds: 1}
	}
	c.StartupProbe = probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}})
	c.StartupProbe.FailureThreshold = 10
	c.ReadinessProbe = probe(httpGet("/healthz", intstr.FromString("http")))
	bad := web("bad")
	bad.Spec.Containers[0].ReadinessProbe = probe(httpGet("/healthz", intstr.FromInt32(8081)))
	bad.Spec.Containers[0].ReadinessProbe.FailureThreshold = 2
	if err := l.try(p, bad); err == nil || !strings.Contains(err.Error(), "dial tcp 10.244.0.3:8081: connect: connection refused") {
		t.Errorf("got %v", err)
	}
	if !ready(l.others("web-1")) || ready(l.others("bad")) {
		t.Errorf("web-1 %v, bad %v", ready(l.others("web-1")), ready(l.others("bad")))
	}
}

// A command that hangs is killed, with all that it started, and the Pod goes on.
func TestHangingProbe(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := program("p", "sleep", "1000")
	p.Spec.Containers[0].ReadinessProbe = execProbe("sh", "-c", "sleep 4321 & sleep 4321")
	if err := l.try(p); err == nil || !strings.Contains(err.Error(), "readiness probe: no answer within 1s (timeoutSeconds)") {
		t.Errorf("got %v", err)
	}
	time.Sleep(2 * time.Second) // some more of them
	poll(t, "one probe at a time", func() bool { return sh(t, "pgrep -fc '[s]leep 4321' || true") <= "3" })
	began := time.Now()
	l.sync()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("its end took %s", took)
	}
	poll(t, "the end of all probes", func() bool { return sh(t, "pgrep -fc '[s]leep 4321' || true") == "0" })
}

// Probes and restarts leave no descriptor and no thread behind, and a Pod in
// which nothing happens costs nothing.
func TestPauseStaysSmall(t *testing.T) {
	l := newLab(t)
	l.cfg.Backoff = Backoff{Initial: time.Millisecond, Most: time.Millisecond}
	busy, idle := program("busy", "sh", "-c", "sleep 0.02"), web("idle")
	l.sync(idle)
	l.cfg.StartTimeout = 100 * time.Millisecond
	_ = l.try(busy, idle) // it is never ready
	restarts := func(n int) {
		poll(t, fmt.Sprint(n, " restarts"), func() bool { cs := l.report("busy").Containers; return len(cs) > 0 && cs[0].Restarts >= n })
	}
	size := func(name string) (files, threads int) {
		pid := l.pause(name).Pid
		for dir, n := range map[string]*int{"fd": &files, "task": &threads} {
			names, err := readNames(fmt.Sprintf("/proc/%d/%s", pid, dir))
			if err != nil {
				t.Fatal(err)
			}
			*n = len(names)
		}
		return files, threads
	}
	restarts(10)
	files, threads := size("busy")
	restarts(30)
	if f, n := size("busy"); f > files+6 || n > threads+3 {
		t.Errorf("after 20 restarts more %d files and %d threads, before %d and %d", f, n, files, threads)
	}
	switches := func() string {
		return sh(t, "cat /proc/%d/task/*/status | awk '/ctxt_switches/ {s += $2} END {print s}'", l.pause("idle").Pid)
	}
	poll(t, "an idle pause process", func() bool {
		before := switches()
		time.Sleep(300 * time.Millisecond)
		return switches() == before
	})
}
