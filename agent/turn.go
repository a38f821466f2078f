package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
)

// turn is one pass of a loop under way: what it is for, and what it has found.
type turn struct {
	loop   *Loop
	now    time.Time
	causes map[Cause]time.Time
	report Report
	errs   []error

	setting Setting
	// living are the Pods of the node as the rules are to know them.
	living []*corev1.Pod
	work   podWork
	events []cluster.Event
	// touched are the Services whose slices may be others.
	touched  []types.NamespacedName
	problems []cluster.Problem
	// again is when to look again though nothing changes; bounded: at once, unless
	// what was done failed: stuck.
	again          time.Time
	bounded, stuck bool
}

// has tells whether the pass is made for one of these causes.
func (t *turn) has(causes ...Cause) bool {
	return slices.ContainsFunc(causes, func(c Cause) bool { _, ok := t.causes[c]; return ok })
}

// fail notes what went wrong.
func (t *turn) fail(err error) {
	if err != nil {
		t.errs = append(t.errs, err)
	}
}

// lookAgain asks for a pass at a time.
func (t *turn) lookAgain(at time.Time) {
	if t.again.IsZero() || at.Before(t.again) {
		t.again = at
	}
}

// run makes the pass: each step does what it can, and goes on after the failure of
// another.
func (t *turn) run(ctx context.Context) {
	if !t.load(ctx) {
		return
	}
	t.pods(ctx)
	t.rules(ctx)
	if ctx.Err() == nil {
		t.farewell(ctx)
		t.record(ctx)
	}
	t.count(ctx)
}

// load reads the objects if they may have changed, and what is known of the node.
// What cannot be read is as it was.
func (t *turn) load(ctx context.Context) bool {
	l := t.loop
	if !l.loaded || t.has(Started, ObjectsChanged, Reloaded, Retried) {
		in, err := l.cfg.Source.Load(ctx)
		if err != nil {
			t.fail(fmt.Errorf("objects: %w", err))
		} else {
			l.input, l.loaded = in, true
		}
	}
	if !l.loaded {
		return false
	}
	setting, err := l.cfg.Source.Settle(ctx, l.input)
	switch {
	case err == nil:
		l.setting = &setting
	case l.setting == nil:
		t.fail(fmt.Errorf("facts about the node: %w", err))
		return false
	default: // they are as they were
		t.fail(fmt.Errorf("facts about the node: %w", err))
	}
	t.setting = *l.setting
	t.problems = slices.Clone(t.setting.Input.Problems)
	return true
}

// record writes down what has changed, for other processes.
func (t *turn) record(ctx context.Context) {
	l := t.loop
	if l.cfg.Chronicle == nil || l.tracker == nil {
		return
	}
	if !l.recorded {
		err := l.cfg.Chronicle.Record(ctx, t.desired())
		l.recorded = err == nil
		t.fail(err)
		return
	}
	if len(t.events) == 0 && len(t.touched) == 0 {
		return
	}
	c := Changed{Events: t.events, Slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{}}
	for _, name := range t.touched {
		c.Slices[name] = l.tracker.Slices(name)
	}
	err := l.cfg.Chronicle.RecordChange(ctx, c)
	l.recorded = err == nil
	t.fail(err)
}

// desired is everything that the node is to hold.
func (t *turn) desired() Desired {
	l := t.loop
	objs := l.store.Objects()
	d := Desired{Objects: objs, Pods: objs.Pods, Made: Made(t.setting.Input.Objects.Pods), Node: l.tracker.node,
		Table: l.tracker.Table(), Problems: t.problems, Locate: t.setting.Input.Locate}
	others := map[types.NamespacedName]bool{}
	for _, p := range t.setting.Input.Objects.Pods {
		others[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p.Status.PodIP != ""
	}
	for _, p := range t.living {
		if name := (types.NamespacedName{Namespace: p.Namespace, Name: p.Name}); !others[name] {
			d.Made[name] = true
		}
	}
	for _, svc := range objs.Services {
		d.Slices = append(d.Slices, l.tracker.Slices(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})...)
	}
	return d
}

// count fills in the report.
func (t *turn) count(ctx context.Context) {
	l, r := t.loop, &t.report
	if l.tracker == nil {
		r.Problems = t.problems
		return
	}
	t.problems = append(t.problems, place(slices.Clone(l.tracker.Problems()), t.setting.Input.Locate)...)
	services := t.setting.Input.Objects.Services
	checks, found := balance.HealthChecks(l.tracker.node, services, l.tracker.Slices)
	r.Checks, r.Problems = checks, append(t.problems, place(found, t.setting.Input.Locate)...)
	if l.cfg.Hinders != nil && t.has(AuditDue, Started, Reloaded) {
		l.hinders = place(l.cfg.Hinders(ctx, l.tracker.Table(), services), t.setting.Input.Locate)
	}
	r.Problems = append(r.Problems, l.hinders...)
	if l.cfg.Problems != nil {
		r.Problems = append(r.Problems, l.cfg.Problems()...)
	}
	r.Services, r.Pods = len(services), len(t.living)
	r.Frontends, r.Endpoints = l.audit.frontends, l.audit.endpoints
	for _, p := range t.living {
		for _, c := range p.Status.ContainerStatuses {
			r.Restarts += int(c.RestartCount)
		}
	}
	r.Leaving = leaving(l.tracker.here)
	t.countEvents()
}

// countEvents counts what was noticed, and since when.
func (t *turn) countEvents() {
	for _, e := range t.events {
		switch e.Object.Kind {
		case cluster.Service:
			t.report.ServiceChanges++
		case cluster.Pod, cluster.EndpointSlice:
			t.report.EndpointChanges++
		}
	}
	if len(t.events) == 0 {
		return
	}
	for c, at := range t.causes {
		if c.tellsOfChange() && (t.report.Oldest.IsZero() || at.Before(t.report.Oldest)) {
			t.report.Oldest = at
		}
	}
}

// taintOfLeaving is what a cluster autoscaler puts on a node that it will delete.
const taintOfLeaving = "ToBeDeletedByClusterAutoscaler"

// leaving says why load balancers are to send a node nothing more, or "".
func leaving(n *corev1.Node) string {
	switch {
	case n == nil:
		return ""
	case n.DeletionTimestamp != nil:
		return "the node is being deleted"
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key == taintOfLeaving {
			return "the node has the taint " + taintOfLeaving
		}
	}
	return ""
}
