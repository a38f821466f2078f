package controller

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/toyproxy/toyproxy/cluster"
)

// set is one ReplicaSet with its Pods. The object is as kept until edit copies it.
type set struct {
	*appsv1.ReplicaSet
	members
	tally
	// own: the object is our copy.
	own bool
	// op is what the pass does to the object; empty for nothing, or its status alone.
	op Op
	// why says it for people.
	why string
}

// edit returns the object to change.
func (s *set) edit() *appsv1.ReplicaSet {
	if !s.own {
		s.ReplicaSet, s.own = s.DeepCopy(), true
	}
	return s.ReplicaSet
}

// update is edit for a change beyond the status.
func (s *set) update(why string) *appsv1.ReplicaSet {
	if s.op == "" {
		s.op, s.why = Update, why
	}
	return s.edit()
}

// size is how many Pods the set is to have.
func (s *set) size() int32 { return orOne(s.Spec.Replicas) }

// resize sets how many.
func (s *set) resize(n int32, why string) {
	rs := s.update(why)
	rs.Spec.Replicas = &n
	rs.Generation++
}

// orOne is the default of replicas.
func orOne(n *int32) int32 {
	if n == nil {
		return 1
	}
	return max(*n, 0)
}

// ref names the set.
func (s *set) ref() cluster.Ref { return cluster.MakeRef(cluster.ReplicaSet, s.Namespace, s.Name) }

// bareSet is all there is to do for a ReplicaSet that no Deployment owns.
func (p *pass) bareSet(rs *appsv1.ReplicaSet) {
	s := &set{ReplicaSet: rs}
	q := p.queue(s.ref())
	if p.join(s, q.owner) {
		p.fill(s, q, int(s.size()))
		p.settle(s, q.owner)
	}
}

// join finds the Pods of a set and counts them. False: the set cannot be acted on,
// which is reported.
func (p *pass) join(s *set, owner cluster.Ref) bool {
	p.owners[UID(cluster.ReplicaSet, s)] = true
	sel, ok := p.selectorOf(s.ref(), s.Spec.Selector, s.Spec.Template.Labels)
	if !ok {
		return false
	}
	s.members = p.claim(claim{owner: owner, ref: ownerOf(cluster.ReplicaSet, s), namespace: s.Namespace, selector: sel})
	s.tally = p.count(s.living, s.Spec.MinReadySeconds, s.Spec.Template.Labels)
	return true
}

// selectorOf is the selector of a workload, which has to match its own template:
// else every Pod made would be one that does not count.
func (p *pass) selectorOf(ref cluster.Ref, s *metav1.LabelSelector, template labels.Set) (labels.Selector, bool) {
	sel, err := parsed(s)
	switch {
	case err != nil:
		p.refuse(ref, "spec.selector", fmt.Sprintf("invalid: %v; the Pods stay as they are until it is mended", err))
	case sel.Empty():
		p.refuse(ref, "spec.selector", "selects all Pods or none; name the labels that spec.template.metadata.labels has")
	case !sel.Matches(template):
		p.refuse(ref, "spec.selector", "does not match spec.template.metadata.labels, so that no Pod made would ever count; make them agree")
	default:
		return sel, true
	}
	return nil, false
}

// parsed is a selector ready for use. Most have labels alone, and those need no
// parsing.
func parsed(s *metav1.LabelSelector) (labels.Selector, error) {
	if s != nil && len(s.MatchLabels) > 0 && len(s.MatchExpressions) == 0 {
		return labels.Set(s.MatchLabels).AsSelectorPreValidated(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// burst is how many Pods of one set a pass makes at most, as upstream: a count with a
// digit too many must not hold up, or exhaust, all else.
const burst = 500

// fill makes the Pods that a set lacks, most and burst at the most, and ends those it
// has too many. It returns how many it makes.
func (p *pass) fill(s *set, q *queue, most int) int {
	q.saw(s.members)
	for _, pod := range s.lost {
		p.act(Delete, pod, q.owner, lostReason(pod))
	}
	want, have, most := int(s.size()), len(s.living), min(most, burst)
	if want == have {
		return 0
	}
	reason := fmt.Sprintf("%s has %d of %d replicas", s.ref(), have, want)
	for range min(want-have, most) {
		pod := p.newPod(ownerOf(cluster.ReplicaSet, s), s.Namespace, s.Name+"-", &s.Spec.Template)
		q.do(Create, pod, reason, Event{Object: s.ref(), Reason: "SuccessfulCreate", Message: "Created pod: " + pod.Name})
	}
	if have < want {
		p.res.Bounded = p.res.Bounded || most < want-have
		return min(want-have, most)
	}
	for _, pod := range firstToGo(s.living)[:have-want] {
		q.do(Delete, pod, reason, Event{Object: s.ref(), Reason: "SuccessfulDelete", Message: "Deleted pod: " + pod.Name})
	}
	return 0
}

// lostReason says why a Pod that has ended is cleared away.
func lostReason(pod *corev1.Pod) string {
	if pod.Status.Reason != "" {
		return fmt.Sprintf("the Pod has ended: %s, %s", pod.Status.Phase, pod.Status.Reason)
	}
	return fmt.Sprintf("the Pod has ended: %s", pod.Status.Phase)
}

// settle hands out the set: its status, and what happens to the object.
func (p *pass) settle(s *set, owner cluster.Ref) {
	if s.op != Delete {
		p.setStatus(s)
	}
	if s.op != "" {
		p.act(s.op, s.ReplicaSet, owner, s.why)
	}
}

// setStatus gives the set the status of its tally.
func (p *pass) setStatus(s *set) {
	leaving := int32(len(s.leaving))
	next := s.Status
	next.Replicas, next.FullyLabeledReplicas = s.replicas, s.labeled
	next.ReadyReplicas, next.AvailableReplicas, next.TerminatingReplicas = s.ready, s.available, &leaving
	next.ObservedGeneration = s.Generation
	if same(&s.Status, &next) {
		return
	}
	s.edit().Status = next
	p.res.ReplicaSets = append(p.res.ReplicaSets, s.ReplicaSet)
}
