package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/toyproxy/toyproxy/agent"
)

func ptr[T any](v T) *T { return &v }

// container is the status of a container: its name, and what it does.
func container(name, doing string) corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: name}
	what, reason, _ := strings.Cut(doing, " ")
	switch what {
	case "ready":
		c.Ready, c.Started, c.State.Running = true, ptr(true), &corev1.ContainerStateRunning{}
	case "running":
		c.Started, c.State.Running = ptr(true), &corev1.ContainerStateRunning{}
	case "waiting":
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	case "ended":
		c.State.Terminated = &corev1.ContainerStateTerminated{Reason: reason}
	case "failed":
		c.State.Terminated = &corev1.ContainerStateTerminated{Reason: reason, ExitCode: 3}
	case "killed":
		c.State.Terminated = &corev1.ContainerStateTerminated{Signal: 9, ExitCode: 137}
	}
	return c
}

// TestPodSummary: a Pod in one line is what kubectl makes of it.
func TestPodSummary(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	tests := []struct {
		name   string
		init   []corev1.Container
		inits  []corev1.ContainerStatus
		mains  []corev1.ContainerStatus
		change func(*corev1.Pod)
		want   string
	}{
		{name: "new", change: func(p *corev1.Pod) { p.Status.Phase = "" }, want: "0/2 Pending 0"},
		{name: "starting", mains: []corev1.ContainerStatus{container("a", "waiting ContainerCreating"), container("b", "running")}, want: "0/2 ContainerCreating 0"},
		{name: "running", mains: []corev1.ContainerStatus{container("a", "ready"), container("b", "ready")}, want: "2/2 Running 0"},
		{name: "backing off", mains: []corev1.ContainerStatus{container("a", "ready"), container("b", "waiting CrashLoopBackOff")}, want: "1/2 CrashLoopBackOff 0"},
		{name: "one completed", mains: []corev1.ContainerStatus{container("a", "ready"), container("b", "ended Completed")}, want: "1/2 NotReady 0"},
		{name: "killed", mains: []corev1.ContainerStatus{container("a", "killed"), container("b", "killed")}, want: "0/2 Signal:9 0"},
		{name: "failed", mains: []corev1.ContainerStatus{container("a", "failed"), container("b", "failed Error")}, want: "0/2 ExitCode:3 0"},
		{name: "first init", init: []corev1.Container{{Name: "i"}, {Name: "j"}}, inits: []corev1.ContainerStatus{container("i", "running"), container("j", "waiting PodInitializing")}, want: "0/2 Init:0/2 0"},
		{name: "second init", init: []corev1.Container{{Name: "i"}, {Name: "j"}}, inits: []corev1.ContainerStatus{container("i", "ended Completed"), container("j", "running")}, want: "0/2 Init:1/2 0"},
		{name: "failing init", init: []corev1.Container{{Name: "i"}}, inits: []corev1.ContainerStatus{container("i", "failed Error")}, want: "0/2 Init:Error 0"},
		{name: "init backs off", init: []corev1.Container{{Name: "i"}}, inits: []corev1.ContainerStatus{container("i", "waiting CrashLoopBackOff")}, want: "0/2 Init:CrashLoopBackOff 0"},
		{name: "sidecar", init: []corev1.Container{{Name: "i", RestartPolicy: &always}}, inits: []corev1.ContainerStatus{container("i", "ready")},
			mains: []corev1.ContainerStatus{container("a", "ready"), container("b", "ready")}, want: "3/3 Running 0"},
		{name: "restarted", mains: []corev1.ContainerStatus{container("a", "ready"), container("b", "ready")}, change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].RestartCount = 2
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(time.Now().Add(-5 * time.Minute))}
		}, want: "2/2 Running 2 (5m ago)"},
		{name: "ending", mains: []corev1.ContainerStatus{container("a", "ready"), container("b", "ready")},
			change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, want: "2/2 Terminating 0"},
		{name: "evicted", change: func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }, want: "0/2 Evicted 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: tt.init, Containers: make([]corev1.Container, 2)},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: tt.inits, ContainerStatuses: tt.mains}}
			if tt.change != nil {
				tt.change(p)
			}
			s := summarize(p)
			got := outOf(int32(s.ready), int32(s.containers)) + " " + s.status + " " + s.restartText()
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestEnvFromText: describe names what a whole ConfigMap or Secret adds.
func TestEnvFromText(t *testing.T) {
	ref := corev1.LocalObjectReference{Name: "shop"}
	for want, from := range map[string]corev1.EnvFromSource{
		"all of ConfigMap shop":                 {ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}},
		"all of Secret shop, each named SHOP_…": {Prefix: "SHOP_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref}},
	} {
		if got := envFromText(from); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestWatcherColumns: what is there at the first look stands in columns, as wide as the
// widest; of an event, whose time comes first, the kind is not named there.
func TestWatcherColumns(t *testing.T) {
	now := look{Desired: agent.Desired{}}
	for _, name := range []string{"a", "a-long-name"} {
		now.Objects.ConfigMaps = append(now.Objects.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	now.events = []*corev1.Event{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, Type: "Normal", Reason: "Started"}}
	maps, _ := viewOf("cm")
	notes, _ := viewOf("ev")
	var out bytes.Buffer
	w := watcher{g: &getFlags{namespace: "default"}, req: request{views: []view{maps, notes}, selector: labels.Everything()}, out: &out, shown: map[string]row{}}
	if err := w.see(func() (look, error) { return now, nil }); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if at := strings.Index(lines[0], "DATA"); at != len("configmap/a-long-name   ") || !strings.HasPrefix(lines[1][at:], "0 ") || !strings.HasPrefix(lines[2][at:], "0 ") {
		t.Errorf("columns:\n%s", out.String())
	}
	if strings.Contains(out.String(), "event/") {
		t.Errorf("the kind stands before a time:\n%s", out.String())
	}
}

// TestWatcher: a line for what is new, changed or gone, and none for age alone.
func TestWatcher(t *testing.T) {
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: metav1.NewTime(time.Now())}}
	now := look{Desired: agent.Desired{}}
	now.Objects.Deployments = []*appsv1.Deployment{web}
	v, _ := viewOf("deploy")
	var out bytes.Buffer
	w := watcher{g: &getFlags{namespace: "default"}, req: request{views: []view{v}, selector: labels.Everything()}, out: &out, shown: map[string]row{}}
	see := func() string {
		out.Reset()
		if err := w.see(func() (look, error) { return now, nil }); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := see(); !strings.HasPrefix(got, "NAME   READY   UP-TO-DATE") || !strings.Contains(got, "\nweb    0/1     0") {
		t.Errorf("first:\n%s", got)
	}
	web = web.DeepCopy()
	web.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	now.Objects.Deployments = []*appsv1.Deployment{web}
	if got := see(); got != "" {
		t.Errorf("only older:\n%s", got)
	}
	web = web.DeepCopy()
	web.Status.ReadyReplicas = 1
	now.Objects.Deployments = []*appsv1.Deployment{web}
	if got := see(); got != "web    1/1     0            0           60m\n" {
		t.Errorf("changed:\n%s", got)
	}
	now.Objects.Deployments = nil
	if got := see(); got != "web    1/1     0            0           60m\n" {
		t.Errorf("gone:\n%s", got)
	}
}
