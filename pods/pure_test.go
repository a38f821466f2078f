package pods

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/cluster/state"
)

func TestNames(t *testing.T) {
	for _, tc := range []struct{ namespace, name, want string }{
		{"default", "pod-a", "pod-a"},
		{"kube-system", "dns", "kube-system_dns"},
	} {
		if got := NetworkName(tc.namespace, tc.name); got != tc.want {
			t.Errorf("%s/%s: %s", tc.namespace, tc.name, got)
		}
	}
	long := strings.Repeat("a", 252)
	x, y := NetworkName(strings.Repeat("n", 63), long+"x"), NetworkName(strings.Repeat("n", 63), long+"y")
	if x == y || len(x) > 255 {
		t.Errorf("%d bytes: %s and %s", len(x), x, y)
	}
}

func TestExpand(t *testing.T) {
	known := map[string]string{"A": "1", "B": "$(A)"}
	for in, want := range map[string]string{
		"x$(A)y": "x1y", "$(B)": "$(A)", "$(C)": "$(C)", "$$(A)": "$(A)", "$": "$", "a$": "a$", "$(A": "$(A", "$A": "$A", "$$$(A)": "$1", "": "",
	} {
		if got := expand(in, known); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) { expand(rapid.String().Draw(t, "s"), known) })
}

func TestEnviron(t *testing.T) {
	p := program("p", "x")
	p.Status.PodIP = "10.0.0.2"
	c := &corev1.Container{Env: []corev1.EnvVar{
		{Name: "HOST", Value: "a"}, {Name: "URL", Value: "http://$(HOST)/"}, {Name: "HOST", Value: "b"},
		{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Optional: new(true)}}},
	}}
	env, err := containerEnv(p, c, objects{stateDir: t.TempDir(), namespace: "default"}, "/bin")
	if got := fmt.Sprint(env); err != nil || got != "[PATH=/bin HOSTNAME=p HOME=/root HOST=b URL=http://a/ IP=10.0.0.2]" {
		t.Errorf("got %s", got)
	}
	c = &corev1.Container{Command: []string{ProgramName, "dns"}}
	env, err = containerEnv(p, c, objects{stateDir: "/s", namespace: "default", domain: "other.zone"}, "/bin")
	if got := fmt.Sprint(env[3:]); err != nil || got != "[TOYPROXY_STATE_DIR=/s TOYPROXY_CLUSTER_DOMAIN=other.zone]" {
		t.Errorf("of toyproxy: %s, %v", got, err)
	}
}

func TestCheck(t *testing.T) {
	hosts, theirs, sctp, gated := program("p"), program("p"), program("p"), program("p")
	gated.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.org/gate"}}
	hosts.Spec.HostNetwork, theirs.Spec.HostNetwork, theirs.Status.PodIP = true, true, "192.0.2.9"
	sctp.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 9, Protocol: corev1.ProtocolSCTP}}
	for _, tc := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{web("a"), "[]"},
		{hosts, "[]"},
		{theirs, "[]"},
		{gated, "[Pod default/p: spec.readinessGates[0]: nobody here sets the condition example.org/gate, and without it the Pod is not ready: leave the gate out, or set the condition in the live object]"},
		{sctp, "[Pod default/p: spec.containers[*].ports[0]: the stand-in serves no SCTP: nothing listens on this port]"},
	} {
		if got := fmt.Sprint(Check(tc.pod)); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

func TestField(t *testing.T) {
	p := program("p")
	p.Annotations, p.UID = map[string]string{"example.org/a": "b"}, "u-1"
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.namespace": "default", "metadata.uid": "u-1", "metadata.labels['app']": "web",
		"metadata.annotations['example.org/a']": "b", "metadata.labels['none']": "", "metadata.labels": `app="web"`, "other": "",
	} {
		if got := field(p, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestParseStat(t *testing.T) {
	s, err := parseStat(7, []byte("7 (a) b) (c) S 1 7 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2"))
	if err != nil || s != (stat{'S', 1, 6, 7, 98765}) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := parseStat(7, []byte("7 (a) S 1")); err == nil {
		t.Error("a short line was taken")
	}
}

func TestDecide(t *testing.T) {
	want, other, relabelled := web("a"), program("a"), web("a")
	relabelled.Labels = nil
	up := live{pod: web("a"), held: true, reported: true, hasNet: true}
	edit := func(f func(*live)) live { l := up; f(&l); return l }
	for _, tc := range []struct {
		name string
		live live
		fits bool
		want action
	}{
		{"nothing there", live{}, false, create},
		{"as wanted", up, true, keep},
		{"other labels", edit(func(l *live) { l.pod = relabelled }), true, relabel},
		{"other spec", edit(func(l *live) { l.pod = other }), true, replace},
		{"other range", up, false, replace},
		{"pause died", edit(func(l *live) { l.held = false }), true, replace},
		{"never started", edit(func(l *live) { l.held, l.reported = false, false }), true, create},
		{"file lost", edit(func(l *live) { l.pod = nil }), true, replace},
		{"astray", edit(func(l *live) { l.astray = true }), true, replace},
	} {
		if got, reason := decide(want, tc.live, tc.fits); got != tc.want {
			t.Errorf("%s: %d (%s), want %d", tc.name, got, reason, tc.want)
		}
	}
}

func TestIgnoreDamage(t *testing.T) {
	damaged, other := &state.CorruptError{Path: "x"}, errors.New("other")
	if err := ignoreDamage(errors.Join(errors.Join(damaged), nil)); err != nil {
		t.Errorf("got %v", err)
	}
	if err := ignoreDamage(errors.Join(damaged, other)); !errors.Is(err, other) {
		t.Errorf("got %v", err)
	}
}
