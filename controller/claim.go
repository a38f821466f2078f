package controller

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// claim is a demand for Pods. A Pod belongs to whom its controller reference
// names, by UID: a selector alone gives nobody the Pod of another.
type claim struct {
	// owner is who acts, for people: the Deployment of a ReplicaSet.
	owner     cluster.Ref
	ref       metav1.OwnerReference
	namespace string
	selector  labels.Selector
	// fits says what else an orphan has to be like; nil: nothing.
	fits func(*corev1.Pod) bool
}

// claim returns the Pods of an owner. It releases those that no longer match, and
// adopts orphans that do.
func (p *pass) claim(c claim) members {
	var m members
	for _, pod := range p.pods[c.ref.UID] {
		if alive(pod) && !c.matches(pod) {
			p.act(Update, disowned(pod, c.ref), c.owner, fmt.Sprintf("released: its labels no longer match the selector of %s %s", c.ref.Kind, c.ref.Name))
			continue
		}
		m.add(pod)
	}
	for _, pod := range p.orphans[c.namespace] {
		if alive(pod) && c.matches(pod) && p.mayAdopt(pod) {
			pod = pod.DeepCopy()
			pod.OwnerReferences = append(pod.OwnerReferences, c.ref)
			p.act(Update, pod, c.owner, fmt.Sprintf("adopted: its labels match the selector of %s %s", c.ref.Kind, c.ref.Name))
			m.add(pod)
		}
	}
	return m
}

func (c claim) matches(pod *corev1.Pod) bool {
	return c.selector.Matches(labels.Set(pod.Labels)) && (c.fits == nil || c.fits(pod))
}

// mayAdopt says so once for each Pod.
func (p *pass) mayAdopt(pod *corev1.Pod) bool {
	uid := UID(cluster.Pod, pod)
	if p.adopted[uid] || p.in.Fixed[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] {
		return false
	}
	p.adopted[uid] = true
	return true
}

// disowned is a copy of the Pod without that owner.
func disowned(pod *corev1.Pod, owner metav1.OwnerReference) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.OwnerReferences = slices.DeleteFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.UID })
	return pod
}
