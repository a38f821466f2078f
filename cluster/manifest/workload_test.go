package manifest

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/cluster"
)

// TestWorkloads: what is wrong with a Deployment and its like is said as an API
// server says it, with the place, down to the fields of the template.
func TestWorkloads(t *testing.T) {
	r := load(t, Options{Paths: []string{filepath.Join("testdata", "workloads")}})
	golden(t, filepath.Join("testdata", "workloads.golden"), lines(r.Problems))
	var got []string
	for _, e := range cluster.NewStore().Replace(r.Objects) {
		got = append(got, e.Object.String())
	}
	want := []string{"ConfigMap default/settings", "DaemonSet kube-system/agent", "Deployment default/web", "ReplicaSet default/lone",
		"Secret default/login", "StatefulSet default/claims", "StatefulSet default/db"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects that are used (-want +got):\n%s", diff)
	}
}

func TestWorkloadDefaults(t *testing.T) {
	o := load(t, Options{Paths: []string{filepath.Join("testdata", "workloads", "good.yaml")}}).Objects
	d := o.Deployments[0].Spec
	share := intstr.FromString("25%")
	if *d.Replicas != 1 || *d.RevisionHistoryLimit != 10 || *d.ProgressDeadlineSeconds != 600 ||
		!cmp.Equal(d.Strategy, appsv1.DeploymentStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &share, MaxSurge: &share}}) {
		t.Errorf("Deployment: %+v", d)
	}
	if p := d.Template.Spec; p.RestartPolicy != corev1.RestartPolicyAlways || *p.TerminationGracePeriodSeconds != 30 || p.Containers[0].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("template: %+v", p)
	}
	s := o.StatefulSets[0].Spec
	if *s.Replicas != 1 || s.PodManagementPolicy != appsv1.OrderedReadyPodManagement || *s.UpdateStrategy.RollingUpdate.Partition != 0 ||
		s.UpdateStrategy.RollingUpdate.MaxUnavailable.IntValue() != 1 || s.PersistentVolumeClaimRetentionPolicy.WhenScaled != "Retain" {
		t.Errorf("StatefulSet: %+v", s)
	}
	if u := o.DaemonSets[0].Spec.UpdateStrategy.RollingUpdate; u.MaxUnavailable.IntValue() != 1 || u.MaxSurge.IntValue() != 0 {
		t.Errorf("DaemonSet: %+v", u)
	}
	if n := *o.ReplicaSets[0].Spec.Replicas; n != 0 {
		t.Errorf("ReplicaSet has %d replicas, the manifest says 0", n)
	}
	want := map[string][]byte{"username": []byte("new"), "password": []byte("word")}
	if got := o.Secrets[0]; !cmp.Equal(want, got.Data) || got.StringData != nil {
		t.Errorf("Secret: %v, %v; stringData must have gone over to data", got.Data, got.StringData)
	}
}

// TestTemplatePlaces requires that a field of a template is found in the file.
func TestTemplatePlaces(t *testing.T) {
	file := filepath.Join("testdata", "workloads", "good.yaml")
	r := load(t, Options{Paths: []string{file}})
	got := r.Locate(cluster.MakeRef(cluster.Deployment, "default", "web"), "spec.template.spec.containers[0].image").String()
	if want := file + ":9:37"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
