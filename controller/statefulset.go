package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// ordered is one StatefulSet in one pass: Pods with names of their own, each of
// which there is at most once.
type ordered struct {
	p   *pass
	s   *appsv1.StatefulSet
	ref cluster.Ref
	q   *queue
	*history
	// current is the revision that an unfinished rollout comes from.
	current *appsv1.ControllerRevision
	// first is the ordinal of places[0]; the places without a Pod are nil.
	first  int
	places []*corev1.Pod
	// surplus are the Pods beyond, highest ordinal first.
	surplus []*corev1.Pod
	// inOrder: one after the other (OrderedReady), else all at once.
	inOrder bool
}

// mostPlaces is how many Pods a StatefulSet may have: each has a place that is looked
// at in every pass, and no node has addresses for more.
const mostPlaces = 1 << 16

func (p *pass) statefulSet(s *appsv1.StatefulSet) {
	ref := cluster.MakeRef(cluster.StatefulSet, s.Namespace, s.Name)
	p.owners[UID(cluster.StatefulSet, s)] = true
	sel, ok := p.selectorOf(ref, s.Spec.Selector, s.Spec.Template.Labels)
	if !ok {
		return
	}
	if claim := mountedClaim(s); claim != "" {
		p.refuse(ref, "spec.volumeClaimTemplates", fmt.Sprintf("%q is mounted by a container, and there are no PersistentVolumes here: "+
			"the StatefulSet is left out, as its Pods would lose what they are to keep; name %q as a hostPath or an emptyDir in spec.template.spec.volumes instead", claim, claim))
		return
	}
	if n := orOne(s.Spec.Replicas); n > mostPlaces {
		p.refuse(ref, "spec.replicas", fmt.Sprintf("%d is more than the %d that a StatefulSet may have here; its Pods stay as they are", n, mostPlaces))
		return
	}
	o := &ordered{p: p, s: s, ref: ref, q: p.queue(ref), inOrder: s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement}
	m := p.claim(claim{owner: ref, ref: ownerOf(cluster.StatefulSet, s), namespace: s.Namespace, selector: sel, fits: o.fits})
	o.q.saw(m)
	o.history = p.history(ref, s, &s.Spec.Template, s.Status.CollisionCount)
	if o.current = o.named(s.Status.CurrentRevision); o.current == nil {
		o.current = o.update
	}
	o.seat(slices.Concat(m.living, m.leaving, m.lost))
	if o.occupy() && o.vacate() && s.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		o.renew()
	}
	o.finish(m)
}

// mountedClaim names the first volume claim that a container mounts, if any.
func mountedClaim(s *appsv1.StatefulSet) string {
	for _, claim := range s.Spec.VolumeClaimTemplates {
		mounts := func(c corev1.Container) bool {
			return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == claim.Name })
		}
		if spec := s.Spec.Template.Spec; slices.ContainsFunc(spec.Containers, mounts) || slices.ContainsFunc(spec.InitContainers, mounts) {
			return claim.Name
		}
	}
	return ""
}

// fits: an orphan may be taken in only under a name of the set.
func (o *ordered) fits(pod *corev1.Pod) bool { return o.ordinal(pod) >= 0 }

// ordinal is the number in the Pod's name, -1 for a name that is none of the set.
func (o *ordered) ordinal(pod *corev1.Pod) int {
	digits, ok := strings.CutPrefix(pod.Name, o.s.Name+"-")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || strconv.Itoa(n) != digits {
		return -1
	}
	return n
}

// seat puts each Pod in its place.
func (o *ordered) seat(pods []*corev1.Pod) {
	if o.s.Spec.Ordinals != nil {
		o.first = int(o.s.Spec.Ordinals.Start)
	}
	o.places = make([]*corev1.Pod, orOne(o.s.Spec.Replicas))
	for _, pod := range pods {
		i := o.ordinal(pod) - o.first
		switch {
		case o.ordinal(pod) < 0:
		case i >= 0 && i < len(o.places):
			o.places[i] = pod
		default:
			o.surplus = append(o.surplus, pod)
		}
	}
	slices.SortFunc(o.surplus, func(a, b *corev1.Pod) int { return cmp.Compare(o.ordinal(b), o.ordinal(a)) })
}

// available: the Pod serves, and for long enough.
func (o *ordered) available(pod *corev1.Pod) bool {
	return pod != nil && alive(pod) && o.p.available(pod, o.s.Spec.MinReadySeconds)
}

// occupy fills the places from the lowest. False: the order asks to wait for a Pod,
// or a burst is full.
func (o *ordered) occupy() bool {
	made := 0
	for i, pod := range o.places {
		done := false
		switch {
		case pod == nil && made == burst:
			o.p.res.Bounded = true
			return false
		case pod == nil:
			made++
			o.create(o.first + i)
		case ending(pod):
		case ended(pod):
			o.p.act(Delete, pod, o.ref, lostReason(pod))
			o.p.res.Events = append(o.p.res.Events, Event{
				Object: o.ref, Warning: true, Reason: "RecreatingFailedPod",
				Message: fmt.Sprintf("StatefulSet %s/%s is recreating failed Pod %s", o.s.Namespace, o.s.Name, pod.Name),
			})
		case o.stray(pod):
			o.remove(pod, "it is of a revision that was given up before it became ready")
		default:
			o.identify(pod)
			done = o.available(pod)
		}
		if !done && o.inOrder {
			return false
		}
	}
	return true
}

// stray: a Pod of a rollout that was broken off. In order, it would be waited for
// for ever, and the revision that mends it would never come: it does not serve, and
// belongs neither to what was nor to what is to be.
func (o *ordered) stray(pod *corev1.Pod) bool {
	rev := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	return !ready(pod) && rev != o.update.Name && rev != o.current.Name && o.named(rev) != nil &&
		o.s.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType
}

// create makes the Pod of a place, unless another has its name.
func (o *ordered) create(ordinal int) {
	name := fmt.Sprintf("%s-%d", o.s.Name, ordinal)
	if o.p.taken[types.NamespacedName{Namespace: o.s.Namespace, Name: name}] {
		o.p.refuse(o.ref, "metadata.name", fmt.Sprintf("Pod %s/%s is there already and belongs to somebody else; rename one of them", o.s.Namespace, name))
		return
	}
	template, rev := o.templateFor(ordinal)
	pod := o.p.newPod(o.owner, o.s.Namespace, name, template)
	pod.Labels = with(identity(pod.Labels, name, ordinal), appsv1.ControllerRevisionHashLabelKey, rev.Name)
	pod.Spec.Hostname, pod.Spec.Subdomain = name, o.s.Spec.ServiceName
	o.q.do(Create, pod, fmt.Sprintf("place %d of %d is empty", ordinal-o.first+1, len(o.places)), Event{
		Object: o.ref, Reason: "SuccessfulCreate", Message: fmt.Sprintf("create Pod %s in StatefulSet %s successful", name, o.s.Name),
	})
}

// identity are the labels that tell one Pod of a StatefulSet from the others.
func identity(labels map[string]string, name string, ordinal int) map[string]string {
	return with(with(labels, appsv1.StatefulSetPodNameLabel, name), appsv1.PodIndexLabel, strconv.Itoa(ordinal))
}

// identify gives an adopted Pod the labels of its place.
func (o *ordered) identify(pod *corev1.Pod) {
	n := o.ordinal(pod)
	if pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name && pod.Labels[appsv1.PodIndexLabel] == strconv.Itoa(n) {
		return
	}
	pod = pod.DeepCopy()
	pod.Labels = identity(pod.Labels, pod.Name, n)
	o.p.act(Update, pod, o.ref, "its labels name its place")
}

// templateFor returns what a new Pod is made of: below the partition the revision
// that the rollout comes from.
func (o *ordered) templateFor(ordinal int) (*corev1.PodTemplateSpec, *appsv1.ControllerRevision) {
	if ordinal < o.first+o.partition() && o.current != o.update {
		if t, err := templateOf(o.current); err == nil {
			return t, o.current
		}
	}
	return &o.s.Spec.Template, o.update
}

// partition is how many places, from the lowest, an update leaves as they are.
func (o *ordered) partition() int {
	u := o.s.Spec.UpdateStrategy
	if u.Type == appsv1.OnDeleteStatefulSetStrategyType || u.RollingUpdate == nil || u.RollingUpdate.Partition == nil {
		return 0
	}
	return max(0, int(*u.RollingUpdate.Partition))
}

func (o *ordered) remove(pod *corev1.Pod, reason string) {
	o.q.do(Delete, pod, reason, Event{
		Object: o.ref, Reason: "SuccessfulDelete", Message: fmt.Sprintf("delete Pod %s in StatefulSet %s successful", pod.Name, o.s.Name),
	})
}

// vacate ends the Pods beyond the places, the highest first. In order, one waits for
// the end of another. False: a Pod is on its way out.
func (o *ordered) vacate() bool {
	reason := fmt.Sprintf("%s has %d replicas", o.ref, len(o.places))
	for _, pod := range o.surplus {
		switch {
		case ending(pod):
		case ended(pod):
			o.p.act(Delete, pod, o.ref, lostReason(pod))
		default:
			o.remove(pod, reason)
		}
		if o.inOrder {
			return false
		}
	}
	return true
}
