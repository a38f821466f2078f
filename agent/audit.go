package agent

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// auditState is what a loop knows of the kernel.
type auditState struct {
	// settled: the last plan of the rules was applied to its end.
	settled bool
	// mark is the fingerprint that the kernel had when it was last as it is to be;
	// empty: not known. It is presumed when it was taken after a change of ours:
	// somebody else's may hide behind it.
	mark     string
	presumed bool
	// whole is when all of the kernel was compared last.
	whole time.Time
	// frontends and endpoints are the size of the table.
	frontends, endpoints int
}

// rules makes the kernel match the objects, and finds and mends what others have
// changed in it.
func (t *turn) rules(ctx context.Context) {
	l := t.loop
	t.follow()
	now, err := dataplane.Fingerprint(ctx, l.cfg.Backend)
	if err != nil {
		t.fail(fmt.Errorf("look at the kernel: %w", err))
		now = ""
	}
	foreign := l.audit.settled && now != "" && l.audit.mark != "" && now != l.audit.mark
	if foreign && len(t.events) > 0 {
		t.auditBefore(ctx)
	}
	if !t.update(ctx) {
		return
	}
	due := t.has(AuditDue) && (now == "" || l.audit.presumed || t.now.Sub(l.audit.whole) >= wholeEvery)
	blind := t.has(KernelChanged) && now == ""
	if l.audit.settled && !t.report.Whole && (foreign && len(t.events) == 0 || due || blind) {
		t.auditRules(ctx)
	}
	t.clearOthers(ctx)
}

// auditBefore compares the kernel with the table before what has changed is put in
// force: then each change is known for what it is.
func (t *turn) auditBefore(ctx context.Context) {
	events := t.events
	t.events = nil
	if t.update(ctx) && !t.report.Whole { // first what is only due, such as the end of drained servers
		t.auditRules(ctx)
	}
	t.events = events
}

// follow takes the objects into the store.
func (t *turn) follow() {
	l, in := t.loop, t.setting.Input
	objs := in.Objects
	objs.Pods = t.living
	if !same(l.objects, objs) {
		t.events = l.store.Replace(objs)
	}
	l.objects = objs
	if l.tracker == nil {
		l.tracker = NewTracker(t.setting.Node, dataplane.Follow(l.cfg.Backend), l.cfg.Flows)
	} else {
		l.tracker.SetNode(t.setting.Node)
	}
}

// same tells, without looking into objects that have not been read again, whether
// two sets hold the same. Pods are read with every pass.
func same(a, b cluster.Objects) bool {
	return slices.Equal(a.Services, b.Services) && slices.Equal(a.EndpointSlices, b.EndpointSlices) &&
		slices.Equal(a.Nodes, b.Nodes) && slices.Equal(a.Namespaces, b.Namespaces) &&
		slices.Equal(a.ConfigMaps, b.ConfigMaps) && slices.Equal(a.Secrets, b.Secrets) &&
		slices.Equal(a.Deployments, b.Deployments) && slices.Equal(a.ReplicaSets, b.ReplicaSets) &&
		slices.Equal(a.StatefulSets, b.StatefulSets) && slices.Equal(a.DaemonSets, b.DaemonSets) &&
		slices.EqualFunc(a.Pods, b.Pods, func(p, q *corev1.Pod) bool { return p == q || equality.Semantic.DeepEqual(p, q) })
}

// update puts in force what has changed; false when that failed.
func (t *turn) update(ctx context.Context) bool {
	l := t.loop
	mark, err := dataplane.Fingerprint(ctx, l.cfg.Backend)
	if err != nil {
		mark = ""
	}
	settled := l.audit.settled
	l.audit.settled = false
	before := l.tracker.node
	p, err := l.tracker.Update(ctx, t.events)
	if err != nil {
		t.fail(err)
		return false
	}
	moved := !reflect.DeepEqual(before, l.tracker.node)
	t.touched = append(t.touched, p.Touched...)
	changes := p.Changes()
	if p.Whole && settled && len(t.events) == 0 && !moved {
		// Nothing of ours has changed, and the kernel is not as we left it.
		t.report.Drift = append(t.report.Drift, changes...)
	} else {
		t.report.Changes = append(t.report.Changes, changes...)
	}
	t.report.Whole = t.report.Whole || p.Whole
	if err := t.depart(ctx, p); err != nil {
		t.fail(err)
		return false
	}
	if err := p.Apply(ctx); err != nil {
		t.report.Unrepaired = len(t.report.Drift)
		t.fail(fmt.Errorf("rules: %w", err))
		return false
	}
	t.report.Flows += countPlan(p.Flows)
	t.report.Notes = append(t.report.Notes, p.Remarks()...)
	l.audit.settled = true
	t.measure(p)
	if p.Whole || len(changes) > 0 || !settled {
		t.noteMark(ctx, mark, len(changes) > 0)
	}
	return true
}

// measure notes the size of the table after a pass, and what was put in force.
func (t *turn) measure(p *Pass) {
	a := &t.loop.audit
	if p.Whole {
		a.whole = t.now
	}
	if t.report.Whole {
		table := t.loop.tracker.Table()
		t.report.Table = table
		a.frontends, a.endpoints = sizeOf(table)
		return
	}
	t.report.Delta = p.delta
	for sign, side := range map[int]dataplane.Table{-1: p.delta.Before, 1: p.delta.After} {
		f, e := sizeOf(side)
		a.frontends, a.endpoints = a.frontends+sign*f, a.endpoints+sign*e
	}
}

func sizeOf(t dataplane.Table) (frontends, endpoints int) {
	for _, s := range t.Sets {
		endpoints += len(s.Endpoints)
	}
	return len(t.Frontends), endpoints
}

func countPlan(p dataplane.Plan) int {
	if p == nil {
		return 0
	}
	return len(p.Changes())
}

// noteMark notes the fingerprint of a kernel that is as it is to be: the one from
// before the look at it, unless that led to changes of ours.
func (t *turn) noteMark(ctx context.Context, before string, changed bool) {
	a := &t.loop.audit
	a.mark, a.presumed = before, false
	if !changed {
		return
	}
	after, err := dataplane.Fingerprint(ctx, t.loop.cfg.Backend)
	if err != nil {
		after = ""
	}
	a.mark, a.presumed = after, true
}

// auditRules compares all of the kernel with the table as it was before this pass,
// and repairs it.
func (t *turn) auditRules(ctx context.Context) {
	l := t.loop
	mark, err := dataplane.Fingerprint(ctx, l.cfg.Backend)
	if err != nil {
		mark = ""
	}
	l.audit.settled = false
	p, err := l.tracker.Audit(ctx)
	if err != nil {
		t.fail(fmt.Errorf("audit: %w", err))
		return
	}
	drift := p.Changes()
	t.report.Drift = append(t.report.Drift, drift...)
	t.report.Whole = true
	if err := p.Apply(ctx); err != nil {
		t.report.Unrepaired += len(drift)
		t.fail(fmt.Errorf("repair: %w", err))
		return
	}
	t.report.Flows += countPlan(p.Flows)
	t.report.Notes = append(t.report.Notes, p.Remarks()...)
	l.audit.settled = true
	t.measure(p)
	t.noteMark(ctx, mark, len(drift) > 0)
}

// depart lets other backends make ready before the rules of a whole pass are written,
// as long as they may have left something.
func (t *turn) depart(ctx context.Context, p *Pass) error {
	if t.loop.cleared || !p.Whole || dataplane.Empty(p.Plan) {
		return nil
	}
	return Depart(ctx, t.loop.cfg.Others)
}

// clearOthers removes what backends that are not in use have left, until nothing is.
func (t *turn) clearOthers(ctx context.Context) {
	l := t.loop
	if l.cleared || !l.audit.settled || !t.report.Whole && !t.has(AuditDue) {
		return
	}
	plan, err := (&Agent{Others: l.cfg.Others}).leftovers(ctx)
	if err == nil {
		t.report.Changes = append(t.report.Changes, plan.Changes()...)
		err = plan.Apply(ctx)
	}
	if err != nil {
		t.fail(fmt.Errorf("what other backends left: %w", err))
		return
	}
	t.report.Notes = append(t.report.Notes, plan.Remarks()...)
	// What connections in progress still need is looked at again.
	l.cleared = len(plan.Remarks()) == 0
	if len(plan.Changes()) > 0 {
		l.audit.mark = ""
		l.tracker.unswept = true // flows that went by what is gone now
	}
}

// repairPods mends the Pods' networks. What it finds is drift, unless this loop has
// never looked before.
func (t *turn) repairPods(ctx context.Context) {
	l := t.loop
	made := slices.DeleteFunc(slices.Clone(t.living), func(p *corev1.Pod) bool {
		return !t.work.ours[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
	})
	plan, err := t.setting.Pods.Repair(ctx, made)
	if err != nil {
		t.fail(fmt.Errorf("audit of the Pods' networks: %w", err))
		return
	}
	changes := plan.Changes()
	t.report.Notes = append(t.report.Notes, dataplane.Remarks(plan)...)
	if l.looked {
		t.report.Drift = append(t.report.Drift, changes...)
	} else {
		t.report.Changes = append(t.report.Changes, changes...)
	}
	if err := plan.Apply(ctx); err != nil {
		if l.looked {
			t.report.Unrepaired += len(changes)
		}
		t.fail(fmt.Errorf("repair of the Pods' networks: %w", err))
		return
	}
	l.looked = true
}
