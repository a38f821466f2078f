package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// The annotations by which a Deployment keeps its history on its ReplicaSets.
const (
	revisionKey = "deployment.kubernetes.io/revision"
	historyKey  = "deployment.kubernetes.io/revision-history"
	desiredKey  = "deployment.kubernetes.io/desired-replicas"
	maxKey      = "deployment.kubernetes.io/max-replicas"
)

// notInherited are annotations that a ReplicaSet has of its own, or that are about
// how the Deployment was written.
var notInherited = map[string]bool{
	revisionKey: true, historyKey: true, desiredKey: true, maxKey: true,
	appsv1.DeprecatedRollbackTo: true, corev1.LastAppliedConfigAnnotation: true, "toyproxy.dev/last-applied": true,
}

const (
	// defaultHistory is how many old revisions are kept when nothing is said.
	defaultHistory = 10
	// longestHistory bounds the annotation that lists the numbers a set has had.
	longestHistory = 2000
)

// revisionOf is the number of a set in its Deployment's history; 0: none yet.
func revisionOf(rs metav1.Object) int64 {
	n, err := strconv.ParseInt(rs.GetAnnotations()[revisionKey], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// nextRevision is one more than any old set has.
func (r *rollout) nextRevision() int64 {
	var highest int64
	for _, s := range r.old() {
		highest = max(highest, revisionOf(s))
	}
	return highest + 1
}

// needCurrent makes the current set if there is none, and keeps its annotations.
func (r *rollout) needCurrent() {
	if r.current != nil {
		r.recordRevision()
		return
	}
	s := r.newSet()
	r.sets = append(r.sets, s)
	r.revision = strconv.FormatInt(r.nextRevision(), 10)
	r.current = s
	rs := s.edit()
	rs.Annotations = inherited(nil, r.d.Annotations)
	rs.Annotations[revisionKey] = r.revision
	s.why = "revision " + r.revision
	size := r.room()
	rs.Spec.Replicas = &size
	r.recordScale(s)
	if size > 0 {
		r.p.event(r.ref, "ScalingReplicaSet", fmt.Sprintf("Scaled up replica set %s from 0 to %d", s.Name, size))
	}
	if hasDeadline(r.d) {
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonNewSet, fmt.Sprintf("Created new replica set %q", s.Name))
	}
}

// newSet is an empty ReplicaSet of the Deployment's template.
func (r *rollout) newSet() *set {
	hash, name := r.freeHash()
	template := r.d.Spec.Template.DeepCopy()
	template.Labels = with(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	sel := r.d.Spec.Selector.DeepCopy()
	sel.MatchLabels = with(sel.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	none := int32(0)
	rs := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: string(cluster.ReplicaSet)},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.d.Namespace, Name: name, Labels: maps.Clone(template.Labels), Generation: 1, CreationTimestamp: r.p.now,
			UID:             derivedUID(string(cluster.ReplicaSet), r.d.Namespace, name, r.p.in.Now.UTC().String()),
			OwnerReferences: []metav1.OwnerReference{ownerOf(cluster.Deployment, r.d)},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &none, MinReadySeconds: r.d.Spec.MinReadySeconds, Selector: sel, Template: *template},
	}
	s := &set{ReplicaSet: rs, own: true, op: Create}
	r.p.join(s, r.ref) // its selector is valid, as the Deployment's is
	return s
}

// freeHash is the hash of the template with which the name of the set is free. A
// name that is taken belongs to another template with the same hash.
func (r *rollout) freeHash() (hash, name string) {
	for {
		hash = templateHash(&r.d.Spec.Template, r.status.CollisionCount)
		name = r.d.Name + "-" + hash
		key := types.NamespacedName{Namespace: r.d.Namespace, Name: name}
		if !r.p.setNames[key] {
			r.p.setNames[key] = true
			return hash, name
		}
		next := int32(1)
		if r.status.CollisionCount != nil {
			next += *r.status.CollisionCount
		}
		r.status.CollisionCount = &next
	}
}

// recordRevision makes the current set the newest revision, as when its template
// comes back after others, and gives it what the Deployment says.
func (r *rollout) recordRevision() {
	s := r.current
	if s == nil {
		return
	}
	next := inherited(s.Annotations, r.d.Annotations)
	if number := r.nextRevision(); revisionOf(s) < number {
		if was := next[revisionKey]; was != "" {
			next[historyKey] = appendHistory(next[historyKey], was)
		}
		next[revisionKey] = strconv.FormatInt(number, 10)
	}
	if !maps.Equal(next, s.Annotations) || s.Spec.MinReadySeconds != r.d.Spec.MinReadySeconds {
		rs := s.update("revision " + next[revisionKey])
		rs.Annotations = next
		rs.Spec.MinReadySeconds = r.d.Spec.MinReadySeconds
	}
	r.revision = next[revisionKey]
	if hasDeadline(r.d) && r.condition(appsv1.DeploymentProgressing) == nil {
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonFoundSet, fmt.Sprintf("Found new replica set %q", s.Name))
	}
}

// inherited returns annotations with those of the Deployment over them.
func inherited(own, deployment map[string]string) map[string]string {
	out := maps.Clone(own)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range deployment {
		if !notInherited[key] {
			out[key] = value
		}
	}
	return out
}

// appendHistory adds a number, dropping the oldest ones of an overlong list.
func appendHistory(list, number string) string {
	numbers := append(strings.FieldsFunc(list, func(c rune) bool { return c == ',' }), number)
	for len(strings.Join(numbers, ",")) > longestHistory {
		numbers = numbers[1:]
	}
	return strings.Join(numbers, ",")
}

// recordScale writes on a set for which scale it has its size: how a later change
// of the scale is noticed, and shared among sets.
func (r *rollout) recordScale(s *set) {
	desired, most := strconv.Itoa(int(r.want)), strconv.Itoa(int(r.want+r.surge))
	if s.Annotations[desiredKey] == desired && s.Annotations[maxKey] == most {
		return
	}
	rs := s.update("scaled to " + desired)
	rs.Annotations = with(with(rs.Annotations, desiredKey, desired), maxKey, most)
}

// forget removes the oldest sets without Pods beyond revisionHistoryLimit.
func (r *rollout) forget() {
	limit := defaultHistory
	if n := r.d.Spec.RevisionHistoryLimit; n != nil {
		limit = int(*n)
	}
	old := r.old()
	slices.SortStableFunc(old, func(a, b *set) int { return int(revisionOf(a) - revisionOf(b)) })
	for _, s := range old[:max(0, len(old)-limit)] {
		if s.size() == 0 && len(s.living)+len(s.leaving)+len(s.lost) == 0 {
			s.op, s.why = Delete, fmt.Sprintf("%s keeps %d old revisions", r.ref, limit)
		}
	}
}
