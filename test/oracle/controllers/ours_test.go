package controllers

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/controller"
)

// ours is a node that does what controller.Reconcile decides.
type ours struct {
	t      *testing.T
	now    time.Time
	serial int
	objs   map[string]metav1.Object
}

func newOurs(t *testing.T) *ours {
	return &ours{t: t, now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), objs: map[string]metav1.Object{}}
}

func key(obj metav1.Object) string { return fmt.Sprintf("%T %s", obj, obj.GetName()) }

func (o *ours) put(obj metav1.Object) { o.objs[key(obj)] = obj }

// state lists everything there is.
func (o *ours) state() state {
	var s state
	for _, obj := range o.objs {
		switch obj := obj.(type) {
		case *appsv1.Deployment:
			s.deployments = append(s.deployments, obj)
		case *appsv1.ReplicaSet:
			s.sets = append(s.sets, obj)
		case *appsv1.StatefulSet:
			s.stateful = append(s.stateful, obj)
		case *appsv1.DaemonSet:
			s.daemons = append(s.daemons, obj)
		case *appsv1.ControllerRevision:
			s.revisions = append(s.revisions, obj)
		case *corev1.Pod:
			s.pods = append(s.pods, obj)
		}
	}
	return s
}

// pass decides once, and does it.
func (o *ours) pass() controller.Result {
	s := o.state()
	in := controller.Input{
		Deployments: s.deployments, StatefulSets: s.stateful, DaemonSets: s.daemons, Revisions: s.revisions, Pods: s.pods,
		Node: nodeName, Now: o.now, Suffix: func() string { o.serial++; return fmt.Sprintf("%05d", o.serial) },
	}
	for _, rs := range s.sets {
		if metav1.GetControllerOf(rs) == nil {
			in.ReplicaSets = append(in.ReplicaSets, rs)
		} else {
			in.OwnedSets = append(in.OwnedSets, rs)
		}
	}
	res := controller.Reconcile(in)
	for _, a := range res.Actions {
		if a.Op == controller.Delete {
			delete(o.objs, key(a.Object))
		} else {
			o.put(a.Object)
		}
	}
	for _, rs := range res.ReplicaSets {
		o.put(rs)
	}
	for _, d := range res.Deployments {
		o.put(d)
	}
	for _, s := range res.StatefulSets {
		o.put(s)
	}
	for _, d := range res.DaemonSets {
		o.put(d)
	}
	return res
}

// settle goes on until there is nothing more to do.
func (o *ours) settle() {
	o.t.Helper()
	for range 500 {
		res := o.pass()
		quiet := len(res.Actions)+len(res.Deployments)+len(res.ReplicaSets)+len(res.StatefulSets)+len(res.DaemonSets) == 0
		o.now = o.now.Add(time.Second)
		for _, pod := range o.state().pods {
			if pod.Status.Phase == corev1.PodPending {
				pod = pod.DeepCopy()
				makeReady(pod, o.now)
				o.put(pod)
				quiet = false
			}
		}
		if quiet {
			return
		}
	}
	o.t.Fatal("ours does not come to rest")
}
