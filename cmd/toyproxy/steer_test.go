package main

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTargets(t *testing.T) {
	tests := []struct{ args, want string }{
		{"deploy web", "deployment.apps/web"},
		{"deployments web api", "deployment.apps/web deployment.apps/api"},
		{"deploy/web sts/db", "deployment.apps/web statefulset.apps/db"},
		{"Deployment.apps/web", "deployment.apps/web"},
		{"deploy", ""},
		{"deploy/web api", `!"api": with KIND/NAME`},
		{"deploy web sts/db", `!"sts/db": names of deployments stand without KIND/`},
		{"pods/web", `!"pods" cannot be meant here: use deployments, statefulsets, daemonsets`},
		{"deploy/", `!"deploy/": with KIND/NAME`},
		{"nothing x", `!"nothing" cannot be meant here`},
	}
	for _, tt := range tests {
		_, targets, err := workloadKinds().parse(strings.Fields(tt.args), "default")
		names := make([]string, len(targets))
		for i, target := range targets {
			names[i] = target.String()
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = "!" + err.Error()
		}
		if got != tt.want && (tt.want == "" || tt.want[0] != '!' || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: got %s, want %s", tt.args, got, tt.want)
		}
	}
}

func TestConditions(t *testing.T) {
	ready := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	stale := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}}}
	tests := []struct {
		text string
		obj  metav1.Object
		want outcome
	}{
		{"condition=Ready", ready, isMet},
		{"condition=ready=true", ready, isMet},
		{"condition=Ready=False", ready, notYet},
		{"condition=Initialized", ready, notYet},
		{"condition=Ready", nil, isMissing},
		{"condition=Available", stale, notYet},
		{"delete", ready, notYet},
		{"delete", nil, isMet},
		{"delete", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, isMet}, // another of that name
		{"create", nil, notYet},
		{"create", ready, isMet},
		{"jsonpath={.status.phase}=Running", ready, isMet},
		{"jsonpath={.status.phase}='Running'", ready, isMet},
		{"jsonpath={.status.phase}=Pending", ready, notYet},
		{"jsonpath={.status.phase}", ready, isMet},
		{"jsonpath={.status.podIP}", ready, notYet},
		{`jsonpath={.status.conditions[?(@.type=="Ready")].status}=True`, ready, isMet},
	}
	for _, tt := range tests {
		criterion, err := parseCondition(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := criterion(tt.obj, "1"); err != nil || got != tt.want {
			t.Errorf("%s of %T: got %d, %v; want %d", tt.text, tt.obj, got, err, tt.want)
		}
	}
	for _, text := range []string{"", "ready", "condition=", "condition==True", "jsonpath=.status.phase=Running", "jsonpath={.x", "jsonpath={[}=1"} {
		if _, err := parseCondition(text); err == nil || !strings.Contains(err.Error(), "--for") {
			t.Errorf("%q: %v; want it refused", text, err)
		}
	}
}

// TestMark: a Pod is never given more time than it had before.
func TestMark(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC)
	p := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr(int64(20))}}
	steps := []struct {
		grace   int64
		changed bool
		after   time.Duration
	}{{-1, true, 20 * time.Second}, {60, false, 20 * time.Second}, {1, true, time.Second}, {0, true, 0}, {0, false, 0}}
	for i, s := range steps {
		changed := mark(p, s.grace, now)
		if changed != s.changed || p.DeletionTimestamp.Sub(now.Truncate(time.Second)) != s.after || *p.DeletionGracePeriodSeconds != int64(s.after.Seconds()) {
			t.Errorf("step %d: changed %v, at %v after %d s; want %+v", i, changed, p.DeletionTimestamp, *p.DeletionGracePeriodSeconds, s)
		}
	}
	plain := &corev1.Pod{}
	if mark(plain, -1, now); *plain.DeletionGracePeriodSeconds != 30 {
		t.Errorf("a Pod that says nothing has 30 seconds, got %d", *plain.DeletionGracePeriodSeconds)
	}
}
