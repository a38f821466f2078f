package agent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/pods"
)

// podWork is what a pass has to do about Pods after the rules stand.
type podWork struct {
	// ours are the Pods that live on this node.
	ours map[types.NamespacedName]bool
	// looked: the Pods were looked at in this pass.
	looked bool
	// end are Pods that have left the rules, bury those that have ended.
	end, bury []pods.Seen
}

// pods looks at the Pods there are, decides which there are to be, begins to make
// those that are missing, and marks as deleted those that are to go: the rules of
// this pass know them for such.
func (t *turn) pods(ctx context.Context) {
	all := t.setting.Input.Objects.Pods
	if t.setting.Pods == nil {
		t.living = all
		return
	}
	if t.podsAsBefore() {
		return
	}
	t.work.ours, t.work.looked = map[types.NamespacedName]bool{}, true
	known := len(t.problems)
	seen, err := t.setting.Pods.Survey(ctx)
	t.fail(err)
	wanted, foreign := split(all)
	owned := t.reconcile(ctx, seen)
	work := pods.Compare(seen, append(wanted, owned...))
	t.problems = append(t.problems, place(work.Problems, t.setting.Input.Locate)...)
	deleted := t.markDeleted(ctx, work.Delete)
	t.relabel(ctx, work.Relabel)
	t.make(ctx, work.Make)
	t.living = foreign
	for _, s := range seen {
		t.work.ours[s.Name] = s.State == pods.Living
		if s.Pod == nil || s.State == pods.Unborn {
			continue
		}
		p := s.Pod
		if d := deleted[s.Name]; d != nil {
			p = d
		}
		t.living = append(t.living, p)
	}
	t.plan(work)
	t.loop.pods = podMemory{t.now, t.living, t.work.ours, t.problems[known:], t.report.Rolling}
	if len(t.errs) > 0 {
		t.loop.pods.at = time.Time{}
	}
	if !t.loop.looked {
		t.repairPods(ctx)
	}
}

// podMemory is what the last look at the Pods came to.
type podMemory struct {
	// at is when that was; zero: there is no use in it.
	at       time.Time
	living   []*corev1.Pod
	ours     map[types.NamespacedName]bool
	problems []cluster.Problem
	rolling  int
}

// podsAsBefore takes what the last look came to, in a pass that nothing about Pods
// is the cause of: whatever changes about them is told. Now and then it is not
// relied upon.
func (t *turn) podsAsBefore() bool {
	m := t.loop.pods
	if m.at.IsZero() || t.now.Sub(m.at) >= wholeEvery || t.has(Started, ObjectsChanged, PodsChanged, Reloaded, Retried) {
		return false
	}
	t.living, t.work.ours, t.report.Rolling = m.living, m.ours, m.rolling
	t.problems = append(t.problems, m.problems...)
	if at := t.loop.again; !at.IsZero() {
		t.lookAgain(at)
	}
	return true
}

// plan notes what is to be done once the rules stand, and when.
func (t *turn) plan(work pods.Work) {
	for _, task := range work.End {
		t.work.end = append(t.work.end, task.Seen)
		if task.Seen.Ending() {
			t.lookAgain(task.Seen.Deadline())
		}
	}
	for _, task := range work.Bury {
		t.work.bury = append(t.work.bury, task.Seen)
	}
}

// split parts Pods that are to be made here from those that are somebody else's.
func split(all []*corev1.Pod) (wanted, foreign []*corev1.Pod) {
	for _, p := range all {
		if p.Status.PodIP == "" {
			wanted = append(wanted, p)
		} else {
			foreign = append(foreign, p)
		}
	}
	return wanted, foreign
}

// reconcile has the controllers decide, and returns the Pods that they want.
func (t *turn) reconcile(ctx context.Context, seen []pods.Seen) []*corev1.Pod {
	l := t.loop
	c := Control{Workloads: l.cfg.Workloads, Now: t.now, MaxActions: l.cfg.MaxActions, Suffix: l.cfg.Suffix}
	d, err := c.Decide(ctx, t.setting, seen)
	t.fail(err)
	t.problems = append(t.problems, d.Problems...)
	t.bounded = t.bounded || d.Bounded
	if !d.Again.IsZero() {
		t.lookAgain(d.Again)
	}
	t.report.Rolling = d.Rolling
	return d.Pods
}

// make begins to make Pods, as many as one pass may.
func (t *turn) make(ctx context.Context, tasks []pods.Task) {
	l := t.loop
	var now []*corev1.Pod
	wanted := map[types.NamespacedName]bool{}
	for _, task := range tasks {
		wanted[task.Name] = true
		if r, failing := l.failing[task.Name]; failing && t.now.Before(r.at) {
			t.cannotMake(task.Name, r)
			continue
		}
		if l.cfg.MaxActions > 0 && len(now) == l.cfg.MaxActions {
			t.bounded = true
			break
		}
		now = append(now, task.Pod)
	}
	for name := range l.failing {
		if !wanted[name] {
			delete(l.failing, name)
		}
	}
	if len(now) == 0 || ctx.Err() != nil {
		return
	}
	failed := t.setting.Pods.Make(ctx, now)
	for _, p := range now {
		name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		err := failed[name]
		if err == nil {
			delete(l.failing, name)
			t.report.PodsMade++
			continue
		}
		t.stuck = true
		r := l.failing[name].failed(t.now)
		r.why = err.Error()
		l.failing[name] = r
		t.cannotMake(name, r)
	}
}

// cannotMake reports a Pod that could not be made, in every pass until it is.
func (t *turn) cannotMake(name types.NamespacedName, r retry) {
	t.lookAgain(r.at)
	t.problems = append(t.problems, place([]cluster.Problem{{Object: cluster.MakeRef(cluster.Pod, name.Namespace, name.Name),
		Message: fmt.Sprintf("cannot be made: %s; it is tried again", r.why)}}, t.setting.Input.Locate)...)
}

// markDeleted marks Pods as deleted and returns them as they are then.
func (t *turn) markDeleted(ctx context.Context, tasks []pods.Task) map[types.NamespacedName]*corev1.Pod {
	out := map[types.NamespacedName]*corev1.Pod{}
	for _, task := range tasks {
		mark := func(p *corev1.Pod) bool { return pods.MarkDeleted(p, t.now) }
		if err := t.setting.Pods.Change(ctx, task.Name, mark); err != nil {
			t.fail(fmt.Errorf("%s: %w", task, err))
			continue
		}
		p := task.Seen.Pod.DeepCopy()
		mark(p)
		out[task.Name] = p
		task.Seen.Pod = p
		t.work.end = append(t.work.end, task.Seen)
		t.lookAgain(task.Seen.Deadline())
		t.report.PodsEnded++
	}
	return out
}

// relabel gives Pods the metadata that is wanted of them.
func (t *turn) relabel(ctx context.Context, tasks []pods.Task) {
	for _, task := range tasks {
		set := func(p *corev1.Pod) bool {
			p.Labels, p.Annotations, p.OwnerReferences = task.Pod.Labels, task.Pod.Annotations, task.Pod.OwnerReferences
			return true
		}
		if err := t.setting.Pods.Change(ctx, task.Name, set); err != nil {
			t.fail(fmt.Errorf("%s: %w", task, err))
		}
	}
}

// linger is how long a Pod that has left the rules is let alone before it is told to
// end: a connection that was sent to it the moment before is still to be accepted.
const linger = 250 * time.Millisecond

// parted are the Pods that left the rules a while ago. The others are looked at
// again.
func (t *turn) parted() []pods.Seen {
	if !t.work.looked {
		return nil
	}
	l := t.loop
	now := l.clock()
	left := make(map[types.NamespacedName]time.Time, len(t.work.end))
	var out []pods.Seen
	for _, s := range t.work.end {
		due, known := l.parting[s.Name]
		if !known {
			due = now.Add(linger)
		}
		left[s.Name] = due
		if now.Before(due) {
			t.lookAgain(due)
			continue
		}
		out = append(out, s)
	}
	l.parting = left
	return out
}

// farewell tells Pods to end that the rules know no more, takes away what those
// have left that have ended, and mends the networks of the others.
func (t *turn) farewell(ctx context.Context) {
	if t.setting.Pods == nil {
		return
	}
	if t.loop.audit.settled {
		if err := t.setting.Pods.End(ctx, t.parted()); err != nil {
			t.fail(fmt.Errorf("ending Pods: %w", err))
		}
	}
	if most := t.loop.cfg.MaxActions; most > 0 && len(t.work.bury) > most {
		t.work.bury = t.work.bury[:most] // the others follow: it is looked at again
	}
	if len(t.work.bury) > 0 {
		if err := t.setting.Pods.Bury(ctx, t.work.bury); err != nil {
			t.fail(fmt.Errorf("what is left of Pods: %w", err))
		}
		t.lookAgain(t.now.Add(t.loop.cfg.MinSyncPeriod))
	}
	if l := t.loop; l.looked && t.has(AuditDue, KernelChanged) {
		t.repairPods(ctx)
	}
}
