package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/controller"
)

// Keep writes down what a pass of the controller has decided, but for Pods: sets
// and revisions that it makes, changes and deletes, the status of workloads, and
// events.
func (k *Keeper) Keep(_ context.Context, res controller.Result) error {
	if k.dry {
		return nil
	}
	var errs []error
	for _, a := range res.Actions {
		errs = append(errs, k.act(a))
	}
	for _, d := range res.Deployments {
		errs = append(errs, k.files.Deployments.Update(nameOf(d), func(old *appsv1.Deployment, exists bool) (*appsv1.Deployment, bool) {
			old.Status = d.Status
			noteRevision(old, d)
			return old, exists
		}))
	}
	for _, rs := range res.ReplicaSets {
		errs = append(errs, k.files.ReplicaSets.Update(nameOf(rs), func(old *appsv1.ReplicaSet, exists bool) (*appsv1.ReplicaSet, bool) {
			old.Status = rs.Status
			return old, exists
		}))
	}
	for _, s := range res.StatefulSets {
		errs = append(errs, k.files.StatefulSets.Update(nameOf(s), func(old *appsv1.StatefulSet, exists bool) (*appsv1.StatefulSet, bool) {
			old.Status = s.Status
			return old, exists
		}))
	}
	for _, d := range res.DaemonSets {
		errs = append(errs, k.files.DaemonSets.Update(nameOf(d), func(old *appsv1.DaemonSet, exists bool) (*appsv1.DaemonSet, bool) {
			old.Status = d.Status
			return old, exists
		}))
	}
	return errors.Join(append(errs, k.note(res.Events))...)
}

// revisionKey is the annotation that numbers the rollouts of a Deployment.
const revisionKey = "deployment.kubernetes.io/revision"

// noteRevision takes over the number of the rollout.
func noteRevision(to, from *appsv1.Deployment) {
	revision := from.Annotations[revisionKey]
	if revision == "" || to.Annotations[revisionKey] == revision {
		return
	}
	if to.Annotations == nil {
		to.Annotations = map[string]string{}
	}
	to.Annotations[revisionKey] = revision
}

// act does one action on a set or a revision.
func (k *Keeper) act(a controller.Action) error {
	switch obj := a.Object.(type) {
	case *appsv1.ReplicaSet:
		return actOn(k.files.ReplicaSets, a.Op, obj)
	case *appsv1.ControllerRevision:
		return actOn(k.files.Revisions, a.Op, obj)
	}
	return nil
}

func actOn[T metav1.Object](dir state.Dir[T], op controller.Op, obj T) error {
	if op == controller.Delete {
		return dir.Delete(nameOf(obj))
	}
	return dir.Update(nameOf(obj), func(_ T, exists bool) (T, bool) {
		// One that somebody has deleted since stays so.
		return obj, exists || op == controller.Create
	})
}

// note writes down events.
func (k *Keeper) note(events []controller.Event) error {
	var errs []error
	for _, e := range events {
		errs = append(errs, k.Note(e, fmt.Sprintf("%s-controller", controllerOf(e.Object.Kind))))
	}
	return errors.Join(errs...)
}

// Note writes down that something happened to an object, and who noticed.
func (k *Keeper) Note(e controller.Event, component string) error {
	if k.dry {
		return nil
	}
	return k.events.Note(state.Happening{Object: e.Object, Warning: e.Warning, Reason: e.Reason, Message: e.Message, Component: component}, time.Now())
}

// controllerOf names the controller of a kind as Kubernetes does.
func controllerOf(kind cluster.Kind) string {
	switch kind {
	case cluster.Deployment:
		return "deployment"
	case cluster.ReplicaSet:
		return "replicaset"
	case cluster.StatefulSet:
		return "statefulset"
	case cluster.DaemonSet:
		return "daemonset"
	}
	return "toyproxy"
}
