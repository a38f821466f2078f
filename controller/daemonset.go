package controller

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/cluster"
)

// daemon is one DaemonSet in one pass: what it has on this node.
type daemon struct {
	p   *pass
	d   *appsv1.DaemonSet
	ref cluster.Ref
	q   *queue
	*history
	members
	// runs: the node is one of those that the DaemonSet wants.
	runs bool
}

func (p *pass) daemonSet(d *appsv1.DaemonSet) {
	ref := cluster.MakeRef(cluster.DaemonSet, d.Namespace, d.Name)
	p.owners[UID(cluster.DaemonSet, d)] = true
	sel, ok := p.selectorOf(ref, d.Spec.Selector, d.Spec.Template.Labels)
	if !ok {
		return
	}
	runs, err := p.node().wants(&d.Spec.Template.Spec)
	if err != nil {
		p.refuse(ref, "spec.template.spec.affinity.nodeAffinity", err.Error())
		return
	}
	m := &daemon{p: p, d: d, ref: ref, q: p.queue(ref), runs: runs}
	m.members = p.claim(claim{owner: ref, ref: ownerOf(cluster.DaemonSet, d), namespace: d.Namespace, selector: sel, fits: p.here})
	slices.SortFunc(m.living, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(rankPhase(b), rankPhase(a)), born(a).Compare(born(b)))
	})
	m.q.saw(m.members)
	m.history = p.history(ref, d, &d.Spec.Template, d.Status.CollisionCount)
	m.clear()
	m.place()
	m.finish()
}

// here: the Pod is on this node.
func (p *pass) here(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" || pod.Spec.NodeName == p.in.Node
}

// clear removes Pods that have ended.
func (m *daemon) clear() {
	for _, pod := range m.lost {
		m.p.act(Delete, pod, m.ref, lostReason(pod))
		m.p.res.Events = append(m.p.res.Events, Event{
			Object: m.ref, Warning: true, Reason: "FailedDaemonPod",
			Message: fmt.Sprintf("Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, m.p.in.Node),
		})
	}
}

// place makes and ends Pods so that one of the template serves on the node.
func (m *daemon) place() {
	onDelete := m.d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	switch now, old := m.split(); {
	case !m.runs:
		m.remove(m.living, m.p.in.Node+" is not a node that it wants")
	case len(m.living) == 0:
		// Two of them at once may want the same port of the host.
		if len(m.leaving) == 0 || m.surges() {
			m.create("the node has none")
		}
	case onDelete:
		m.remove(m.living[1:], "the node has more than one")
	case len(old) == 0:
		m.remove(now[1:], "the node has more than one")
	case m.surges():
		m.surge(now, old)
	default:
		m.remove(m.living, m.toward())
	}
}

func (m *daemon) toward() string {
	return fmt.Sprintf("rolling update to revision %d", m.update.Revision)
}

// surge makes the new Pod beside the old one, which goes when the new one serves, or
// when it does not serve itself.
func (m *daemon) surge(now, old []*corev1.Pod) {
	if len(now) == 0 {
		m.create(m.toward())
	}
	serves := slices.ContainsFunc(now, m.available)
	for _, pod := range old {
		if serves || !m.available(pod) {
			m.remove([]*corev1.Pod{pod}, m.toward())
		}
	}
	if len(now) > 1 {
		m.remove(now[1:], "the node has more than one")
	}
}

// split tells the Pods of the template from those of older ones; those that run come
// first, then the oldest.
func (m *daemon) split() (now, old []*corev1.Pod) {
	for _, pod := range m.living {
		if m.updated(pod) {
			now = append(now, pod)
		} else {
			old = append(old, pod)
		}
	}
	return now, old
}

func (m *daemon) updated(pod *corev1.Pod) bool {
	return pod.Labels[appsv1.ControllerRevisionHashLabelKey] == m.update.Labels[hashKey]
}

func (m *daemon) available(pod *corev1.Pod) bool {
	return m.p.available(pod, m.d.Spec.MinReadySeconds)
}

// surges tells whether an update makes the new Pod before it ends the old one.
func (m *daemon) surges() bool {
	u := m.d.Spec.UpdateStrategy
	if u.Type == appsv1.OnDeleteDaemonSetStrategyType || u.RollingUpdate == nil {
		return false
	}
	none := intstr.FromInt32(0)
	return m.p.scaled(m.ref, "spec.updateStrategy.rollingUpdate.maxSurge", orShare(u.RollingUpdate.MaxSurge, none), 1, true) > 0
}

func (m *daemon) create(reason string) {
	pod := m.p.newPod(m.owner, m.d.Namespace, m.d.Name+"-", &m.d.Spec.Template)
	pod.Labels = with(pod.Labels, appsv1.ControllerRevisionHashLabelKey, m.update.Labels[hashKey])
	m.q.do(Create, pod, reason, Event{Object: m.ref, Reason: "SuccessfulCreate", Message: "Created pod: " + pod.Name})
}

func (m *daemon) remove(pods []*corev1.Pod, reason string) {
	for _, pod := range pods {
		m.q.do(Delete, pod, reason, Event{Object: m.ref, Reason: "SuccessfulDelete", Message: "Deleted pod: " + pod.Name})
	}
}

// finish hands out the status, and forgets revisions that no Pod is of.
func (m *daemon) finish() {
	status := m.d.Status.DeepCopy()
	*status = appsv1.DaemonSetStatus{Conditions: status.Conditions, CollisionCount: m.collisions, ObservedGeneration: m.d.Generation}
	used := map[string]bool{}
	for _, pod := range m.living {
		used[pod.Labels[appsv1.ControllerRevisionHashLabelKey]] = true
	}
	// The node counts as what its first Pod is: during a surge that is the old one.
	first := m.living[:min(1, len(m.living))]
	if m.runs {
		status.DesiredNumberScheduled = 1
		status.CurrentNumberScheduled = flag(len(first) > 0)
		status.NumberReady = flag(slices.ContainsFunc(first, ready))
		status.NumberAvailable = flag(slices.ContainsFunc(first, m.available))
		status.UpdatedNumberScheduled = flag(slices.ContainsFunc(first, m.updated))
		status.NumberUnavailable = 1 - status.NumberAvailable
	} else {
		status.NumberMisscheduled = flag(len(first) > 0)
	}
	m.forget(m.d.Spec.RevisionHistoryLimit, used)
	if !same(&m.d.Status, status) {
		d := m.d.DeepCopy()
		d.Status = *status
		m.p.res.DaemonSets = append(m.p.res.DaemonSets, d)
	}
}

// flag counts nodes: there is one.
func flag(is bool) int32 {
	if is {
		return 1
	}
	return 0
}
