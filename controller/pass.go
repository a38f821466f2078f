package controller

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Reconcile decides one pass: what to make and to end so that what is observed
// comes nearer to what is wanted. Everything in the input is judged: a ReplicaSet
// or a Pod whose owner is not in it has lost its owner, and goes. To look at one
// owner alone give it Input.Of.
func Reconcile(in Input) Result {
	p := newPass(in)
	for _, d := range in.Deployments {
		if d.DeletionTimestamp == nil {
			p.deployment(d)
		}
	}
	for _, rs := range p.bare() {
		p.bareSet(rs)
	}
	for _, s := range in.StatefulSets {
		if s.DeletionTimestamp == nil {
			p.statefulSet(s)
		}
	}
	for _, d := range in.DaemonSets {
		if d.DeletionTimestamp == nil {
			p.daemonSet(d)
		}
	}
	p.collect()
	p.share()
	return p.res
}

// pass is one call of Reconcile: the input, sorted by owner, and the result so far.
type pass struct {
	in  Input
	now metav1.Time // in whole seconds, as objects keep it
	// pods and sets by the UID of the one who controls them.
	pods map[types.UID][]*corev1.Pod
	sets map[types.UID][]*appsv1.ReplicaSet
	// orphans and orphanSets by namespace: nobody controls them.
	orphans    map[string][]*corev1.Pod
	orphanSets map[string][]*appsv1.ReplicaSet
	// setNames of all ReplicaSets, those of this pass too.
	setNames map[types.NamespacedName]bool
	// revisions by the UID of their owner.
	revisions map[types.UID][]*appsv1.ControllerRevision
	// adopted in this pass: no other may.
	adopted map[types.UID]bool
	// owners that are there, by UID: what belongs to others is collected.
	owners map[types.UID]bool
	// taken names of Pods; made counts the new ones.
	taken map[types.NamespacedName]bool
	made  int
	// queues of what to do to Pods, one an owner.
	queues []*queue
	res    Result
}

func newPass(in Input) *pass {
	p := &pass{
		in: in, now: metav1.NewTime(in.Now.Truncate(time.Second)),
		pods: map[types.UID][]*corev1.Pod{}, sets: map[types.UID][]*appsv1.ReplicaSet{},
		orphans: map[string][]*corev1.Pod{}, orphanSets: map[string][]*appsv1.ReplicaSet{},
		revisions: map[types.UID][]*appsv1.ControllerRevision{},
		adopted:   map[types.UID]bool{}, owners: map[types.UID]bool{},
		setNames: map[types.NamespacedName]bool{}, taken: make(map[types.NamespacedName]bool, len(in.Pods)),
	}
	for _, pod := range in.Pods {
		p.taken[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = true
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			p.pods[owner.UID] = append(p.pods[owner.UID], pod)
		} else {
			p.orphans[pod.Namespace] = append(p.orphans[pod.Namespace], pod)
		}
	}
	for _, sets := range [][]*appsv1.ReplicaSet{in.OwnedSets, in.ReplicaSets} {
		for _, rs := range sets {
			p.addSet(rs)
		}
	}
	for _, rev := range in.Revisions {
		if owner := metav1.GetControllerOfNoCopy(rev); owner != nil {
			p.revisions[owner.UID] = append(p.revisions[owner.UID], rev)
		}
	}
	return p
}

func (p *pass) addSet(rs *appsv1.ReplicaSet) {
	p.setNames[types.NamespacedName{Namespace: rs.Namespace, Name: rs.Name}] = true
	switch owner := metav1.GetControllerOfNoCopy(rs); {
	case rs.DeletionTimestamp != nil: // as good as gone: its Pods are collected
	case owner != nil:
		p.sets[owner.UID] = append(p.sets[owner.UID], rs)
	default:
		p.orphanSets[rs.Namespace] = append(p.orphanSets[rs.Namespace], rs)
	}
}

// bare returns the ReplicaSets that no Deployment has adopted.
func (p *pass) bare() []*appsv1.ReplicaSet {
	var out []*appsv1.ReplicaSet
	for _, sets := range p.orphanSets {
		for _, rs := range sets {
			if !p.adopted[UID(cluster.ReplicaSet, rs)] {
				out = append(out, rs)
			}
		}
	}
	slices.SortFunc(out, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// again notes that the world is to be looked at again at that time.
func (p *pass) again(at time.Time) {
	if p.res.Again.IsZero() || at.Before(p.res.Again) {
		p.res.Again = at
	}
}

// event tells of something that is so already.
func (p *pass) event(obj cluster.Ref, reason, message string) {
	p.res.Events = append(p.res.Events, Event{Object: obj, Reason: reason, Message: message})
}

// refuse reports an object that cannot be acted on; its Pods stay as they are.
func (p *pass) refuse(obj cluster.Ref, field, message string) {
	p.res.Problems = append(p.res.Problems, cluster.Problem{Object: obj, Field: field, Message: message})
}

// act does something that MaxActions does not bound.
func (p *pass) act(op Op, obj metav1.Object, owner cluster.Ref, reason string) {
	p.res.Actions = append(p.res.Actions, Action{Op: op, Object: obj, Owner: owner, Reason: reason})
}
