package state

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Live is the live objects of one node below a state directory. Pods that this
// node runs are written by package pods, workloads through Workloads; all else by
// Write.
type Live struct {
	services   Dir[*corev1.Service]
	slices     Dir[*discoveryv1.EndpointSlice]
	nodes      Dir[*corev1.Node]
	namespaces Dir[*corev1.Namespace]
	pods       Dir[*corev1.Pod]
	remote     Dir[*corev1.Pod]
	workloads  Workloads
	doors      Doors
}

// OpenLive returns the live objects below a state directory.
func OpenLive(stateDir string) Live {
	return Live{
		services:   Open(stateDir, "services", func() *corev1.Service { return &corev1.Service{} }),
		slices:     Open(stateDir, "endpointslices", func() *discoveryv1.EndpointSlice { return &discoveryv1.EndpointSlice{} }),
		nodes:      Open(stateDir, "nodes", func() *corev1.Node { return &corev1.Node{} }),
		namespaces: Open(stateDir, "namespaces", func() *corev1.Namespace { return &corev1.Namespace{} }),
		pods:       OpenPods(stateDir),
		remote:     Open(stateDir, "remote-pods", func() *corev1.Pod { return &corev1.Pod{} }),
		workloads:  OpenWorkloads(stateDir),
		doors:      OpenDoors(stateDir),
	}
}

// OpenPods returns the directory of the Pods that the node runs.
func OpenPods(stateDir string) Dir[*corev1.Pod] {
	return Open(stateDir, "pods", func() *corev1.Pod { return &corev1.Pod{} })
}

// Read returns what is there. Damaged files are named in the error; the
// objects are good all the same.
func (l Live) Read() (cluster.Objects, error) {
	var errs [8]error
	o, err := l.workloads.Read()
	errs[6] = err
	doors, err := l.doors.Read()
	errs[7] = err
	o.Ingresses, o.IngressClasses = doors.Ingresses, doors.IngressClasses
	o.GatewayClasses, o.Gateways, o.HTTPRoutes, o.ReferenceGrants = doors.GatewayClasses, doors.Gateways, doors.HTTPRoutes, doors.ReferenceGrants
	o.Services, errs[0] = l.services.List()
	o.EndpointSlices, errs[1] = l.slices.List()
	o.Nodes, errs[2] = l.nodes.List()
	o.Namespaces, errs[3] = l.namespaces.List()
	o.Pods, errs[4] = l.pods.List()
	remote, err := l.remote.List()
	errs[5] = err
	o.Pods = append(o.Pods, remote...)
	return o, errors.Join(errs[:]...)
}

// Made names the Pods that the node runs.
func (l Live) Made() map[types.NamespacedName]bool {
	made := map[types.NamespacedName]bool{}
	pods, _ := l.pods.List()
	for _, p := range pods {
		made[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = true
	}
	return made
}

// Write makes the kept objects equal to these, but for the Pods that the node
// runs itself (isLocal). Objects without a creation time keep the one of
// before, or get the time given. The status of Doors stays.
func (l Live) Write(o cluster.Objects, isLocal func(*corev1.Pod) bool, now time.Time) error {
	var remote []*corev1.Pod
	for _, p := range o.Pods {
		if !isLocal(p) {
			remote = append(remote, p)
		}
	}
	return errors.Join(
		l.services.Replace(dated(l.services, o.Services, now)),
		l.slices.Replace(dated(l.slices, o.EndpointSlices, now)),
		l.nodes.Replace(dated(l.nodes, o.Nodes, now)),
		l.namespaces.Replace(dated(l.namespaces, o.Namespaces, now)),
		l.remote.Replace(dated(l.remote, remote, now)),
		l.workloads.ConfigMaps.Replace(dated(l.workloads.ConfigMaps, o.ConfigMaps, now)),
		l.workloads.Secrets.Replace(dated(l.workloads.Secrets, o.Secrets, now)),
		l.doors.write(o, now))
}

// dated gives objects without a creation time one, on copies: now, or the next
// second after the youngest of the others. Times are kept in seconds, and who was
// there before must not seem as young as who came after.
func dated[T interface {
	metav1.Object
	DeepCopy() T
}](d Dir[T], objs []T, now time.Time) []T {
	for _, obj := range objs {
		if born := obj.GetCreationTimestamp(); !now.Truncate(time.Second).After(born.Time) {
			now = born.Add(time.Second)
		}
	}
	out := make([]T, len(objs))
	for i, obj := range objs {
		out[i] = obj
		created := obj.GetCreationTimestamp()
		if !created.IsZero() {
			continue
		}
		created = metav1.NewTime(now)
		if old, err := d.Load(types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}); err == nil {
			if t := old.GetCreationTimestamp(); !t.IsZero() {
				created = t
			}
		}
		out[i] = obj.DeepCopy()
		out[i].SetCreationTimestamp(created)
	}
	return out
}
