package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/pods"
)

// Pods makes the Pods of one node and tells which there are.
type Pods interface {
	// Plan compares the wanted Pods with those there are, as pods.Runtime does.
	Plan(context.Context, []*corev1.Pod) (pods.Plan, error)
	// List returns the Pods that live on this node, with their status.
	List(context.Context) ([]*corev1.Pod, error)
	// Remove plans to take away every Pod and the node's Pod network.
	Remove(context.Context) (dataplane.Plan, error)
}

// Agent plans and applies the state of one node.
type Agent struct {
	Node Node
	// Pods makes Pods; nil where none are to be made: then the Pods of the
	// input are taken as they are.
	Pods Pods
	// Backend programs the table.
	Backend dataplane.Backend
	// Others are the backends that are not in use: what they left is removed
	// once Backend's rules stand.
	Others []Leftover
	// Flows removes the tracked flows that are stale once Backend's rules stand;
	// nil where they are to stay.
	Flows Flows
	// Record keeps the live objects for other processes; may be nil.
	Record Recorder
}

// Flows finds the tracked flows that a table makes stale, as conntrack.Cleaner
// does.
type Flows interface {
	// Expect is told the table before its rules are written, so that its flows
	// are known for ours however the pass ends.
	Expect(context.Context, dataplane.Table) error
	// Plan reads the kernel's flows and plans to remove those that the table
	// makes stale; its rules have to stand.
	Plan(context.Context, dataplane.Table) (dataplane.Plan, error)
}

// Recorder keeps the live objects of a node where other processes find them.
type Recorder interface {
	// Record makes the kept objects equal to these, writing only what differs.
	Record(context.Context, Desired) error
}

// Plan is everything one pass would do, in order: create Pods, program the
// backend, remove what other backends left, remove stale flows, delete Pods.
type Plan struct {
	Desired
	// Create, Rules, Leftovers and Delete are the steps in their order.
	Create, Rules, Leftovers, Delete dataplane.Plan
	// Flows is the removal of stale flows. Which those are is not known before
	// the rules stand: Apply fills it in, between Leftovers and Delete, and it has
	// no part in Changes. ReadFlows fills it in for those who only look.
	Flows      dataplane.Plan
	agent      *Agent
	input      Input
	programmed bool
	// replaced are the Pods that Create ends and makes anew; withdrawn says that
	// they have been taken out of the rules.
	replaced  []types.NamespacedName
	withdrawn bool
}

// Plan reads the node and returns what has to change. It writes nothing.
func (a *Agent) Plan(ctx context.Context, in Input) (*Plan, error) {
	p := &Plan{agent: a, input: in, Create: dataplane.Plans(nil), Delete: dataplane.Plans(nil), Flows: dataplane.Plans(nil)}
	living := in.Objects.Pods
	if a.Pods != nil {
		pp, err := a.Pods.Plan(ctx, living)
		if err != nil {
			return nil, fmt.Errorf("plan of the Pods: %w", err)
		}
		p.Create, p.Delete, living = pp.Create, pp.Delete, pp.Pods
		p.input.Problems = append(slices.Clone(in.Problems), place(pp.Problems, in.Locate)...)
		p.replaced = pp.Replaced
		pp.BeforeReplacing(p.withdraw)
	}
	if err := p.planRules(ctx, living); err != nil {
		return nil, err
	}
	return p, nil
}

// planRules computes the table for the Pods and what the backends have to change.
func (p *Plan) planRules(ctx context.Context, living []*corev1.Pod) error {
	a := p.agent
	p.Desired = Resolve(p.input, a.Node, living)
	var err error
	if p.Rules, err = a.Backend.Plan(ctx, p.Table); err != nil {
		return fmt.Errorf("plan of the rules: %w", err)
	}
	p.Leftovers, err = a.leftovers(ctx)
	return err
}

// Changes lists the changes of all steps in order.
func (p *Plan) Changes() []dataplane.Change {
	return dataplane.Plans{p.Create, p.Rules, p.Leftovers, p.Delete}.Changes()
}

// Empty reports whether there are no changes.
func (p *Plan) Empty() bool { return dataplane.Plans{p.Create, p.Rules, p.Leftovers, p.Delete}.Empty() }

// Remarks lists what all steps have to tell.
func (p *Plan) Remarks() []string {
	return dataplane.Plans{p.Create, p.Rules, p.Leftovers, p.Flows, p.Delete}.Remarks()
}

// Apply makes the changes. When some Pods cannot be made the others are, the
// rules follow what really lives, and the error names those that failed. Flows
// that cannot be removed stop nothing else either.
func (p *Plan) Apply(ctx context.Context) error {
	podsErr := p.Create.Apply(ctx)
	if podsErr != nil || p.withdrawn {
		if err := p.replan(ctx); err != nil {
			return errors.Join(podsErr, err)
		}
	}
	err := p.applyRules(ctx)
	p.programmed = err == nil
	if rec := p.agent.Record; rec != nil {
		err = errors.Join(err, rec.Record(ctx, p.Desired))
	}
	return errors.Join(podsErr, err)
}

// Programmed tells whether Apply came to its end but for Pods that could not be
// made: the rules are those of the Pods that live.
func (p *Plan) Programmed() bool { return p.programmed }

// applyRules makes the changes that come after the Pods of the node live.
func (p *Plan) applyRules(ctx context.Context) error {
	var flowsErr error
	if f := p.agent.Flows; f != nil {
		flowsErr = f.Expect(ctx, p.Table)
	}
	if err := p.writeRules(ctx); err != nil {
		return errors.Join(flowsErr, err)
	}
	if err := p.removeLeftovers(ctx); err != nil {
		return errors.Join(flowsErr, err)
	}
	if err := p.ReadFlows(ctx); err != nil {
		flowsErr = errors.Join(flowsErr, err)
	} else {
		flowsErr = errors.Join(flowsErr, p.Flows.Apply(ctx))
	}
	return errors.Join(flowsErr, p.Delete.Apply(ctx))
}

// ReadFlows fills in Flows with what the table makes stale of the flows there are
// now. A kernel that cannot list its flows leaves it without changes, and with a
// remark.
func (p *Plan) ReadFlows(ctx context.Context) error {
	if p.agent.Flows == nil {
		return nil
	}
	plan, err := staleFlows(p.agent.Flows.Plan(ctx, p.Table))
	if err == nil {
		p.Flows = plan
	}
	return err
}

// staleFlows makes of what planning the removal of stale flows gave, where the
// kernel cannot list its flows, a plan without changes that remarks on it.
func staleFlows(plan dataplane.Plan, err error) (dataplane.Plan, error) {
	switch {
	case errors.Is(err, dataplane.ErrUnsupported):
		return unknownFlows{err.Error()}, nil
	case err != nil:
		return nil, fmt.Errorf("plan of the stale flows: %w", err)
	}
	return plan, nil
}

// unknownFlows is the plan for flows that cannot be read.
type unknownFlows struct{ why string }

// Changes is empty.
func (unknownFlows) Changes() []dataplane.Change { return nil }

// Apply does nothing.
func (unknownFlows) Apply(context.Context) error { return nil }

// Remarks says why nothing is done.
func (u unknownFlows) Remarks() []string { return []string{u.why} }

// withdraw takes the Pods that are about to be replaced out of the rules: nobody
// is to be sent to a Pod that has ended.
func (p *Plan) withdraw(ctx context.Context) error {
	living, err := p.living(ctx)
	if err != nil {
		return err
	}
	interim := &Plan{agent: p.agent, input: p.input}
	if err := interim.planRules(ctx, slices.DeleteFunc(living, func(pod *corev1.Pod) bool {
		return slices.Contains(p.replaced, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	})); err != nil {
		return err
	}
	p.withdrawn = true
	return interim.writeRules(ctx)
}

// replan makes the rules for the Pods that live.
func (p *Plan) replan(ctx context.Context) error {
	living, err := p.living(ctx)
	if err != nil {
		return err
	}
	return p.planRules(ctx, living)
}

// living are the wanted Pods that live, others' among them.
func (p *Plan) living(ctx context.Context) ([]*corev1.Pod, error) {
	live, err := p.agent.Pods.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list of the live Pods: %w", err)
	}
	alive := make(map[string]*corev1.Pod, len(live))
	for _, pod := range live {
		alive[pod.Namespace+"/"+pod.Name] = pod
	}
	var living []*corev1.Pod
	for _, pod := range p.input.Objects.Pods {
		if pod.Status.PodIP != "" {
			living = append(living, pod)
		} else if made, ok := alive[pod.Namespace+"/"+pod.Name]; ok {
			living = append(living, made)
		}
	}
	return living, nil
}

// Down plans to remove everything of ours from the node: rules first, then
// Pods and their network.
func (a *Agent) Down(ctx context.Context) (dataplane.Plan, error) {
	rules, err := a.Backend.Remove(ctx)
	if err != nil {
		return nil, fmt.Errorf("plan of the rules' removal: %w", err)
	}
	leftovers, err := a.leftovers(ctx)
	if err != nil {
		return nil, err
	}
	plans := append(dataplane.Plans{rules}, leftovers...)
	if a.Pods != nil {
		plan, err := a.Pods.Remove(ctx)
		if err != nil {
			return nil, fmt.Errorf("plan of the Pods' removal: %w", err)
		}
		plans = append(plans, plan)
	}
	return plans, nil
}
