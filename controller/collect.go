package controller

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// controlled are the kinds whose objects own Pods here. Pods of other controllers
// (a Job, the Node of a static Pod) are nobody's business.
var controlled = []cluster.Kind{cluster.ReplicaSet, cluster.StatefulSet, cluster.DaemonSet}

// collect ends what has lost its owner: ReplicaSets of Deployments, revisions and
// Pods.
func (p *pass) collect() {
	for _, rs := range slices.Concat(p.in.OwnedSets, p.in.ReplicaSets) {
		if owner := metav1.GetControllerOfNoCopy(rs); rs.DeletionTimestamp != nil || owner != nil && !p.owners[owner.UID] {
			p.act(Delete, rs, ownerRef(rs), goneReason(rs))
		}
	}
	for _, rev := range p.in.Revisions {
		if owner := metav1.GetControllerOfNoCopy(rev); owner != nil && !p.owners[owner.UID] {
			p.act(Delete, rev, ownerRef(rev), goneReason(rev))
		}
	}
	var orphaned []*corev1.Pod
	for _, pod := range p.in.Pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner != nil && !p.owners[owner.UID] && slices.Contains(controlled, cluster.Kind(owner.Kind)) {
			orphaned = append(orphaned, pod)
		}
	}
	p.collectPods(orphaned)
}

func (p *pass) collectPods(pods []*corev1.Pod) {
	queues := map[cluster.Ref]*queue{}
	for _, pod := range pods {
		owner := ownerRef(pod)
		switch {
		case ending(pod):
		case ended(pod):
			p.act(Delete, pod, owner, lostReason(pod))
		default:
			if queues[owner] == nil {
				queues[owner] = p.queue(owner)
			}
			event := Event{Object: owner, Reason: "SuccessfulDelete", Message: "Deleted pod: " + pod.Name}
			queues[owner].do(Delete, pod, goneReason(pod), event)
		}
	}
}

// ownerRef names who controls the object; nobody: zero.
func ownerRef(obj metav1.Object) cluster.Ref {
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil {
		return cluster.Ref{}
	}
	return cluster.MakeRef(cluster.Kind(owner.Kind), obj.GetNamespace(), owner.Name)
}

func goneReason(obj metav1.Object) string {
	if obj.GetDeletionTimestamp() != nil {
		return "somebody asked for its end"
	}
	return fmt.Sprintf("%s is gone", ownerRef(obj))
}
