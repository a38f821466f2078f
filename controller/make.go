package controller

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	// longestName is that of a label: the name of a Pod is its host name too.
	longestName = 63
	suffixLen   = 5
	// suffixTries bounds the search for an ending that is not taken.
	suffixTries = 100
)

// newPod makes a Pod of a template for its owner. A base that ends in a dash gets an
// ending; another one is the whole name.
func (p *pass) newPod(owner metav1.OwnerReference, namespace, base string, t *corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: base,
			Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations), Finalizers: slices.Clone(t.Finalizers),
			OwnerReferences: []metav1.OwnerReference{owner}, CreationTimestamp: p.now,
		},
		Spec:   *t.Spec.DeepCopy(),
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if base[len(base)-1] == '-' {
		pod.GenerateName = base
		pod.Name = p.freeName(owner.UID, namespace, base)
	}
	p.taken[types.NamespacedName{Namespace: namespace, Name: pod.Name}] = true
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = p.in.Node
	}
	// The order of making within one pass is told by its nanoseconds.
	made := p.in.Now.Add(time.Duration(p.made)).UTC().Format(time.RFC3339Nano)
	p.made++
	pod.Annotations = with(pod.Annotations, madeAt, made)
	pod.UID = derivedUID("Pod", namespace, pod.Name, string(owner.UID), made)
	return pod
}

// freeName returns base with an ending that no Pod of the namespace has.
func (p *pass) freeName(owner types.UID, namespace, base string) string {
	base = base[:min(len(base), longestName-suffixLen)]
	for try := range suffixTries {
		name := base + p.suffix(owner, try)
		if !p.taken[types.NamespacedName{Namespace: namespace, Name: name}] {
			return name
		}
	}
	return base + p.suffix(owner, suffixTries) // the maker of the Pod will say that it is there
}

// suffix asks for an ending, or makes one that nothing but owner, time and count decide.
func (p *pass) suffix(owner types.UID, try int) string {
	if p.in.Suffix != nil && try < suffixTries/2 {
		return p.in.Suffix()
	}
	data := fmt.Appendf(nil, "%s/%d/%d/%d", owner, p.in.Now.UnixNano(), p.made, try)
	text := rand.SafeEncodeString(hashOf(data, nil) + "00000")
	return text[:suffixLen]
}
