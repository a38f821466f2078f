package controller

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/toyproxy/toyproxy/cluster"
)

// rollout is one Deployment in one pass.
type rollout struct {
	p   *pass
	d   *appsv1.Deployment
	ref cluster.Ref
	q   *queue
	bounds
	// sets are its ReplicaSets, oldest first.
	sets []*set
	// current is the one of sets whose template is that of the Deployment; nil while
	// there is none.
	current *set
	// rolled: the pass went on with the rollout; it was neither paused nor rescaled.
	rolled bool
	// status is what it becomes, revision the annotation.
	status   appsv1.DeploymentStatus
	revision string
}

// deployment decides about one Deployment: first the sizes of its ReplicaSets, then
// the Pods of each.
func (p *pass) deployment(d *appsv1.Deployment) {
	ref := cluster.MakeRef(cluster.Deployment, d.Namespace, d.Name)
	p.owners[UID(cluster.Deployment, d)] = true
	r := &rollout{p: p, d: d, ref: ref, q: p.queue(ref), bounds: p.boundsOf(d), status: *d.Status.DeepCopy(), revision: d.Annotations[revisionKey]}
	sel, ok := p.selectorOf(ref, d.Spec.Selector, d.Spec.Template.Labels)
	if !ok {
		r.keepSets()
		return
	}
	r.findSets(sel)
	r.notePause()
	switch {
	case d.Spec.Paused:
		r.rescale()
		r.forget()
	case r.scaled():
		r.rescale()
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		r.recreate()
	default:
		r.roll()
	}
	vacant := r.vacant()
	for _, s := range r.sets {
		if s.op != Delete {
			vacant -= p.fill(s, r.q, vacant)
		}
		p.settle(s, ref)
	}
	r.finish()
}

// keepSets leaves what a Deployment has that cannot be acted on.
func (r *rollout) keepSets() {
	for _, rs := range r.p.sets[UID(cluster.Deployment, r.d)] {
		r.p.owners[UID(cluster.ReplicaSet, rs)] = true
	}
}

// vacant is how many Pods may be made now. The sizes of the sets keep within the
// bounds, but where MaxActions has held back the end of Pods, those come first.
func (r *rollout) vacant() int {
	sizes, living := int32(0), int32(0)
	for _, s := range r.sets {
		sizes += s.size()
		living += s.replicas
	}
	return int(max(0, max(r.want+r.surge, sizes)-living))
}

// findSets collects the ReplicaSets: its own, released when they match no longer,
// and orphans that do.
func (r *rollout) findSets(sel labels.Selector) {
	owner := ownerOf(cluster.Deployment, r.d)
	for _, rs := range r.p.sets[owner.UID] {
		s := &set{ReplicaSet: rs}
		if !sel.Matches(labels.Set(rs.Labels)) {
			s.update("released: its labels no longer match the selector of " + r.ref.String()).OwnerReferences =
				slices.DeleteFunc(slices.Clone(rs.OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
			r.release(s)
			continue
		}
		r.add(s)
	}
	for _, rs := range r.p.orphanSets[r.d.Namespace] {
		uid := UID(cluster.ReplicaSet, rs)
		if r.p.adopted[uid] || !sel.Matches(labels.Set(rs.Labels)) {
			continue
		}
		r.p.adopted[uid] = true
		s := &set{ReplicaSet: rs}
		adopted := s.update("adopted: its labels match the selector of " + r.ref.String())
		adopted.OwnerReferences = append(adopted.OwnerReferences, owner)
		r.add(s)
	}
	slices.SortFunc(r.sets, compareSets)
	for _, s := range r.sets {
		if sameTemplate(&s.Spec.Template, &r.d.Spec.Template) {
			r.current = s
			return
		}
	}
}

// add takes a set in, unless it cannot be acted on.
func (r *rollout) add(s *set) {
	if r.p.join(s, r.ref) {
		r.sets = append(r.sets, s)
	}
}

// release lets a set go: the next pass treats it as one that nobody owns.
func (r *rollout) release(s *set) {
	r.p.owners[UID(cluster.ReplicaSet, s)] = true
	r.p.act(s.op, s.ReplicaSet, r.ref, s.why)
}

// compareSets orders by age. Creation times hold seconds: then by revision.
func compareSets(a, b *set) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(revisionOf(a), revisionOf(b)), cmp.Compare(a.Name, b.Name))
}

// old returns the sets of other templates, oldest first.
func (r *rollout) old() []*set {
	return slices.DeleteFunc(slices.Clone(r.sets), func(s *set) bool { return s == r.current })
}

// active are the sets that are to have Pods.
func active(sets []*set) []*set {
	return slices.DeleteFunc(slices.Clone(sets), func(s *set) bool { return s.size() == 0 })
}

// resize changes a set, records for which scale of the Deployment, and tells. False:
// it has that size already.
func (r *rollout) resize(s *set, n int32, why string) bool {
	was := s.size()
	if n == was {
		return false
	}
	r.recordScale(s)
	s.resize(n, why)
	word := "up"
	if n < was {
		word = "down"
	}
	r.p.event(r.ref, "ScalingReplicaSet", fmt.Sprintf("Scaled %s replica set %s from %d to %d", word, s.Name, was, n))
	return true
}

// roll moves one step from the old sets to the current one. Up goes first; what was
// started must be available before the old ones go.
func (r *rollout) roll() {
	r.rolled = true
	r.needCurrent()
	if r.grow() || r.shrink() {
		return
	}
	if r.complete() {
		r.forget()
	}
}

// grow resizes the current set towards what is wanted, as far as the surge allows.
func (r *rollout) grow() bool {
	if r.current.size() > r.want {
		return r.resize(r.current, r.want, "scaled down")
	}
	return r.resize(r.current, r.room(), r.toward())
}

// room is how large the current set may be now.
func (r *rollout) room() int32 {
	size := int32(0)
	if r.current != nil {
		size = r.current.size()
	}
	if r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return r.want
	}
	total := int32(0)
	for _, s := range r.sets {
		// A set that was made smaller has more Pods for as long as MaxActions holds
		// their end back.
		total += max(s.size(), s.replicas)
	}
	return max(size, min(r.want, size+r.want+r.surge-total))
}

func (r *rollout) toward() string { return "rolling update to revision " + r.revision }

// shrink makes the old sets smaller, as far as enough Pods stay available. Those
// that do not serve anyway go first.
func (r *rollout) shrink() bool {
	old := active(r.old())
	if len(old) == 0 {
		return false
	}
	total := int32(0)
	for _, s := range r.sets {
		total += s.size()
	}
	floor := r.want - r.down
	spare := total - floor - (r.current.size() - r.serving(r.current))
	if spare <= 0 {
		return false
	}
	cleaned := r.dropUnhealthy(old, spare)
	return r.dropHealthy(old, floor) || cleaned
}

// serving is how many available Pods of a set will stay: one that was made smaller
// has more until they have been ended.
func (r *rollout) serving(s *set) int32 { return min(s.available, s.size()) }

// dropUnhealthy takes from the old sets, oldest first, what is not available.
func (r *rollout) dropUnhealthy(old []*set, spare int32) bool {
	dropped := false
	for _, s := range old {
		n := min(spare, s.size()-r.serving(s))
		if n > 0 {
			dropped = r.resize(s, s.size()-n, r.toward())
			spare -= n
		}
	}
	return dropped
}

// dropHealthy takes from the old sets, oldest first, what is available beyond the floor.
func (r *rollout) dropHealthy(old []*set, floor int32) bool {
	spare := -floor
	for _, s := range r.sets {
		spare += r.serving(s)
	}
	dropped := false
	for _, s := range old {
		n := min(spare, s.size())
		if n > 0 {
			dropped = r.resize(s, s.size()-n, r.toward())
			spare -= n
		}
	}
	return dropped
}

// recreate ends all of the old before anything of the new begins.
func (r *rollout) recreate() {
	r.rolled = true
	gone := true
	for _, s := range r.old() {
		gone = gone && len(s.living)+len(s.leaving) == 0
		if s.size() > 0 {
			r.resize(s, 0, "the Pods of all other revisions end first (strategy Recreate)")
			gone = false
		}
	}
	if !gone {
		r.recordRevision()
		return
	}
	r.needCurrent()
	if !r.grow() && r.complete() {
		r.forget()
	}
}

// hasDeadline tells whether a rollout can be late.
func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

// notePause tells in the condition Progressing that a rollout is paused or goes on,
// so that the time between does not count against its deadline.
func (r *rollout) notePause() {
	if !hasDeadline(r.d) {
		return
	}
	c := r.condition(appsv1.DeploymentProgressing)
	noted := c != nil && c.Reason == reasonPaused
	switch {
	case c != nil && c.Reason == reasonTimedOut:
	case r.d.Spec.Paused && !noted:
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonPaused, "Deployment is paused")
	case !r.d.Spec.Paused && noted:
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonResumed, "Deployment is resumed")
	}
}
