package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/manifest"
)

var birth = time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC)

func stamp(now time.Time) Stamp {
	n := 0
	return Stamp{Now: now, UID: func() types.UID { n++; return types.UID(fmt.Sprintf("uid-%d", n)) }}
}

func load(t *testing.T, text string) cluster.Objects {
	t.Helper()
	r, err := manifest.Load(t.Context(), manifest.Options{Paths: []string{"-"}, Stdin: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Problems {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	return r.Objects
}

// deployment loads a Deployment whose spec begins with some fields.
func deployment(t *testing.T, spec, container string) *appsv1.Deployment {
	t.Helper()
	return load(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: front}}
spec:
  `+spec+`
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: dns, image: `+container+`, ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53}]}]}
`).Deployments[0]
}

func made(t *testing.T, m *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	live, changed, err := Apply(nil, false, m, stamp(birth))
	if err != nil || !changed {
		t.Fatalf("first Apply: %v, changed %v", err, changed)
	}
	return live
}

func TestFirstTime(t *testing.T) {
	m := deployment(t, "replicas: 3", "a")
	m.Status.Replicas = 7
	m.Generation = 9
	live := made(t, m)
	if live.UID != "uid-1" || live.Generation != 1 || !live.CreationTimestamp.Time.Equal(birth.Truncate(time.Second)) || live.Status.Replicas != 0 {
		t.Errorf("a new object has a UID, generation 1, a time of birth and no status: %+v, %+v", live.ObjectMeta, live.Status)
	}
	if m.UID != "" || m.Status.Replicas != 7 {
		t.Error("the manifest was changed")
	}
}

// Applying the same manifest again changes nothing, whatever a command has done.
func TestSameManifest(t *testing.T) {
	m := deployment(t, "replicas: 3", "a")
	live := made(t, m)
	*live.Spec.Replicas = 5
	live.Spec.Paused = true
	before := live.DeepCopy()
	next, changed, err := Apply(live, true, m, stamp(birth.Add(time.Hour)))
	if err != nil || changed || !equality.Semantic.DeepEqual(next, before) {
		t.Errorf("changed %v, %v: %s", changed, err, cmp.Diff(before, next))
	}
}

func TestNextManifest(t *testing.T) {
	restarted := map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-31T12:00:00Z"}
	scaled := func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 }
	tests := map[string]struct {
		first, second      [2]string
		command            func(*appsv1.Deployment)
		replicas           int32
		image              string
		strategy           appsv1.DeploymentStrategyType
		restarted          bool
		generationIncrease int64
	}{
		"image": {first: [2]string{"replicas: 3", "a"}, second: [2]string{"replicas: 3", "b"},
			replicas: 3, image: "b", strategy: "RollingUpdate", generationIncrease: 1},
		"scaled, not said": {first: [2]string{"", "a"}, second: [2]string{"", "b"}, command: scaled,
			replicas: 5, image: "b", strategy: "RollingUpdate", generationIncrease: 1},
		"scaled, said as before": {first: [2]string{"replicas: 3", "a"}, second: [2]string{"replicas: 3", "b"}, command: scaled,
			replicas: 5, image: "b", strategy: "RollingUpdate", generationIncrease: 1},
		"scaled, said anew": {first: [2]string{"replicas: 3", "a"}, second: [2]string{"replicas: 4", "a"}, command: scaled,
			replicas: 4, image: "a", strategy: "RollingUpdate", generationIncrease: 1},
		"no longer said": {first: [2]string{"replicas: 3", "a"}, second: [2]string{"", "a"}, command: scaled,
			replicas: 1, image: "a", strategy: "RollingUpdate", generationIncrease: 1},
		"null": {first: [2]string{"replicas: 3", "a"}, second: [2]string{"replicas: null", "a"}, command: scaled,
			replicas: 1, image: "a", strategy: "RollingUpdate", generationIncrease: 1},
		"a default written out": {first: [2]string{"replicas: 3", "a"}, second: [2]string{"replicas: 3; revisionHistoryLimit: 10", "a"},
			replicas: 3, image: "a", strategy: "RollingUpdate"},
		"another strategy": {first: [2]string{"replicas: 3", "a"}, second: [2]string{"replicas: 3; strategy: {type: Recreate}", "a"}, command: scaled,
			replicas: 5, image: "a", strategy: "Recreate", generationIncrease: 1},
		"restarted": {first: [2]string{"replicas: 3", "a"}, second: [2]string{"replicas: 3", "b"},
			command:  func(d *appsv1.Deployment) { d.Spec.Template.Annotations = restarted },
			replicas: 3, image: "b", strategy: "RollingUpdate", restarted: true, generationIncrease: 1},
		"undone, another field": {first: [2]string{"replicas: 3", "b"}, second: [2]string{"replicas: 4", "b"},
			command:  func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "a" },
			replicas: 4, image: "a", strategy: "RollingUpdate", generationIncrease: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := func(s string) string { return strings.ReplaceAll(s, "; ", "\n  ") }
			live := made(t, deployment(t, spec(tt.first[0]), tt.first[1]))
			live.Status.Replicas = 3
			if tt.command != nil {
				tt.command(live)
			}
			next, changed, err := Apply(live, true, deployment(t, spec(tt.second[0]), tt.second[1]), stamp(birth.Add(time.Hour)))
			if err != nil || !changed {
				t.Fatalf("%v, changed %v", err, changed)
			}
			got := next.Spec
			if *got.Replicas != tt.replicas || got.Template.Spec.Containers[0].Image != tt.image || got.Strategy.Type != tt.strategy {
				t.Errorf("replicas %d, image %s, strategy %s", *got.Replicas, got.Template.Spec.Containers[0].Image, got.Strategy.Type)
			}
			if _, ok := got.Template.Annotations["kubectl.kubernetes.io/restartedAt"]; ok != tt.restarted {
				t.Errorf("template annotations: %v", got.Template.Annotations)
			}
			if next.UID != "uid-1" || !next.CreationTimestamp.Equal(&live.CreationTimestamp) || next.Status.Replicas != 3 || next.Generation != 1+tt.generationIncrease {
				t.Errorf("UID, birth and status must stay, the generation count: %+v", next.ObjectMeta)
			}
			if n := len(got.Template.Spec.Containers[0].Ports); n != 2 {
				t.Errorf("the container has %d ports, want UDP and TCP of the same number", n)
			}
		})
	}
}

// Labels and annotations that others have set stay; those that the manifest takes
// back go.
func TestMetadata(t *testing.T) {
	m := deployment(t, "replicas: 3", "a")
	live := made(t, m)
	live.Annotations["deployment.kubernetes.io/revision"] = "4"
	live.Labels["mine"] = "yes"
	second := load(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {a: b}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: dns, image: a}]}}
`).Deployments[0]
	next, _, err := Apply(live, true, second, stamp(birth))
	if err != nil {
		t.Fatal(err)
	}
	annotations := next.DeepCopy().Annotations
	delete(annotations, manifest.LastApplied)
	if diff := cmp.Diff(map[string]string{"a": "b", "deployment.kubernetes.io/revision": "4"}, annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"mine": "yes"}, next.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	live := made(t, deployment(t, "replicas: 3", "a"))
	other := load(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: other}},
  template: {metadata: {labels: {app: other}}, spec: {containers: [{name: c, image: a}]}}}}`).Deployments[0]
	next, changed, err := Apply(live, true, other, stamp(birth))
	var refused *RefusedError
	if !errors.As(err, &refused) || changed || next != live {
		t.Fatalf("got %v, changed %v; want a refusal, and the live object", err, changed)
	}
	p := refused.Problems()
	if len(p) != 1 || p[0].Object.String() != "Deployment default/web" || p[0].Field != "spec.selector" || !strings.Contains(p[0].Message, "field is immutable") {
		t.Errorf("problems: %v", p)
	}
}

func TestImmutable(t *testing.T) {
	yes := true
	frozen := &corev1.ConfigMap{Immutable: &yes, Data: map[string]string{"a": "b"}}
	stateful := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{ServiceName: "db"}}
	moved := stateful.DeepCopy()
	moved.Spec.ServiceName, moved.Spec.PodManagementPolicy = "other", appsv1.ParallelPodManagement
	secret := &corev1.Secret{Type: "Opaque", Data: map[string][]byte{"password": []byte("xyzzy")}, Immutable: &yes}
	tests := []struct {
		old, next metav1.Object
		want      string
	}{
		{frozen, frozen.DeepCopy(), ""},
		{&corev1.ConfigMap{Data: map[string]string{"a": "b"}}, &corev1.ConfigMap{}, ""},
		{frozen, &corev1.ConfigMap{Data: map[string]string{"a": "c"}}, "immutable data"},
		{stateful, moved, "spec.serviceName spec.podManagementPolicy"},
		{secret, &corev1.Secret{Type: "kubernetes.io/tls", Immutable: &yes, Data: map[string][]byte{"password": []byte("plugh")}}, "type data"},
	}
	for _, tt := range tests {
		errs := Immutable(tt.old, tt.next)
		fields := make([]string, len(errs))
		for i, e := range errs {
			fields[i] = e.Field
			if strings.Contains(e.Error(), "xyzzy") || strings.Contains(e.Error(), "plugh") {
				t.Errorf("a secret is shown: %v", e)
			}
		}
		if got := strings.Join(fields, " "); got != tt.want {
			t.Errorf("%T: refused %q, want %q", tt.old, got, tt.want)
		}
	}
}

// From every manifest to every other: an object that no command has touched becomes
// what it would have been, had it been made of the second.
func TestAnyToAny(t *testing.T) {
	specs := []string{"replicas: 3", "", "replicas: 0; paused: true", "strategy: {type: Recreate}", "strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}",
		"minReadySeconds: 5; progressDeadlineSeconds: 60", "revisionHistoryLimit: 2; replicas: 7; strategy: {type: RollingUpdate}"}
	containers := []string{"a", "b, command: [sleep, '1'], env: [{name: X, value: z}]", "c, readinessProbe: {httpGet: {port: 53}}"}
	var all []*appsv1.Deployment
	for i, spec := range specs {
		all = append(all, deployment(t, strings.ReplaceAll(spec, "; ", "\n  "), containers[i%len(containers)]))
	}
	for i, first := range all {
		for j, second := range all {
			next, _, err := Apply(made(t, first), true, second, stamp(birth))
			if err != nil {
				t.Fatalf("%d to %d: %v", i, j, err)
			}
			if diff := cmp.Diff(made(t, second).Spec, next.Spec); diff != "" {
				t.Errorf("%d to %d (-made of the second +applied):\n%s", i, j, diff)
			}
			// And the way back is the way back.
			back, _, err := Apply(next, true, first, stamp(birth))
			if err != nil || !equality.Semantic.DeepEqual(back.Spec, made(t, first).Spec) {
				t.Errorf("%d to %d and back: %v", i, j, err)
			}
		}
	}
}

// A live object that remembers no manifest, or a damaged one, takes all that the
// next one says, and keeps what it does not say.
func TestNoManifestBefore(t *testing.T) {
	for _, remembered := range []string{"", "{damaged"} {
		live := made(t, deployment(t, "replicas: 3\n  minReadySeconds: 7", "a"))
		live.Annotations = map[string]string{manifest.LastApplied: remembered}
		next, changed, err := Apply(live, true, deployment(t, "replicas: 4", "b"), stamp(birth))
		if err != nil || !changed || *next.Spec.Replicas != 4 || next.Spec.MinReadySeconds != 7 || next.Spec.Template.Spec.Containers[0].Image != "b" {
			t.Errorf("remembering %q: %v, changed %v: %+v", remembered, err, changed, next.Spec)
		}
	}
}
