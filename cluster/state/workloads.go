package state

import (
	"errors"
	"io/fs"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// Workloads are the live objects that say which Pods there are to be, and those
// that Pods take their configuration from. Commands such as scale change
// them while an agent works on them: both go through Dir.Update.
type Workloads struct {
	Deployments  Dir[*appsv1.Deployment]
	ReplicaSets  Dir[*appsv1.ReplicaSet]
	StatefulSets Dir[*appsv1.StatefulSet]
	DaemonSets   Dir[*appsv1.DaemonSet]
	// Revisions are the histories of StatefulSets and DaemonSets.
	Revisions  Dir[*appsv1.ControllerRevision]
	ConfigMaps Dir[*corev1.ConfigMap]
	// Secrets are readable for their owner only.
	Secrets Dir[*corev1.Secret]
}

// OpenWorkloads returns the workloads below a state directory.
func OpenWorkloads(stateDir string) Workloads {
	return Workloads{
		Deployments:  Open(stateDir, "deployments", func() *appsv1.Deployment { return &appsv1.Deployment{} }),
		ReplicaSets:  Open(stateDir, "replicasets", func() *appsv1.ReplicaSet { return &appsv1.ReplicaSet{} }),
		StatefulSets: Open(stateDir, "statefulsets", func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} }),
		DaemonSets:   Open(stateDir, "daemonsets", func() *appsv1.DaemonSet { return &appsv1.DaemonSet{} }),
		Revisions:    Open(stateDir, "controllerrevisions", func() *appsv1.ControllerRevision { return &appsv1.ControllerRevision{} }),
		ConfigMaps:   Open(stateDir, "configmaps", func() *corev1.ConfigMap { return &corev1.ConfigMap{} }),
		Secrets:      Open(stateDir, "secrets", func() *corev1.Secret { return &corev1.Secret{} }).Private(),
	}
}

// WorkloadDirs are the names of the directories below a state directory that
// Workloads, Events and Problems use: whoever removes a node removes them.
func WorkloadDirs() []string {
	return []string{"deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions", "configmaps", "secrets", "events"}
}

// Read returns what is there, but for revisions, which are no input of anybody
// else. Damaged files are named in the error; the objects are good all the same.
// Secrets that the caller may not read are left out.
func (w Workloads) Read() (cluster.Objects, error) {
	var o cluster.Objects
	var errs [6]error
	o.Deployments, errs[0] = w.Deployments.List()
	o.ReplicaSets, errs[1] = w.ReplicaSets.List()
	o.StatefulSets, errs[2] = w.StatefulSets.List()
	o.DaemonSets, errs[3] = w.DaemonSets.List()
	o.ConfigMaps, errs[4] = w.ConfigMaps.List()
	o.Secrets, errs[5] = w.Secrets.List()
	if errors.Is(errs[5], fs.ErrPermission) {
		errs[5] = nil
	}
	return o, errors.Join(errs[:]...)
}
