package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/podnet"
)

// Plan is what has to change for the wanted Pods to live; a dataplane.Plan. Its
// two halves may be applied apart: the rules of a backend belong between them.
type Plan struct {
	// Pods are the wanted Pods with the status they have once Create is applied,
	// in the order given. Those that cannot be made are left out.
	Pods []*corev1.Pod
	// Problems tell why some cannot be made, or what of them is ignored.
	Problems []cluster.Problem
	// Create makes the network and what is missing, and replaces what changed.
	// Its Apply goes on after a Pod that fails, and then returns all errors,
	// among them a *StartError for each container that did not come up.
	Create dataplane.Plan
	// Delete ends Pods that nobody wants any more.
	Delete dataplane.Plan
	// Replaced names the Pods that Create ends and makes anew under the same name.
	Replaced []types.NamespacedName
	create   *createPlan
}

// BeforeReplacing has Create call f once all new Pods are ready, before it ends
// those that it replaces: the moment to take them out of the rules.
func (p Plan) BeforeReplacing(f func(context.Context) error) {
	if p.create != nil {
		p.create.withdraw = f
	}
}

// Changes lists the changes of both halves.
func (p Plan) Changes() []dataplane.Change { return dataplane.Plans{p.Create, p.Delete}.Changes() }

// Apply applies both halves.
func (p Plan) Apply(ctx context.Context) error { return dataplane.Plans{p.Create, p.Delete}.Apply(ctx) }

// Plan compares the wanted Pods with what there is. It writes nothing. Pods that
// carry a status.podIP are somebody else's and pass through untouched. Pods that
// live and are not wanted are deleted.
func (r *Runtime) Plan(ctx context.Context, wanted []*corev1.Pod) (Plan, error) {
	obs, err := r.observe()
	if err = ignoreDamage(err); err != nil {
		return Plan{}, err
	}
	c := &creation{runtime: r, obs: obs, wanted: map[string]bool{}}
	for _, p := range wanted {
		c.add(p)
	}
	net, err := r.cfg.Net.Create(ctx, c.requests)
	if err != nil {
		return Plan{}, err
	}
	c.useNetworks(net)
	del, err := r.planDelete(ctx, obs, func(name string) bool { return !c.wanted[name] })
	if err != nil {
		return Plan{}, err
	}
	create := c.plan(net)
	return Plan{Pods: c.pods(wanted), Problems: c.problems, Create: create, Delete: del,
		Replaced: create.replacedNames(), create: create}, nil
}

// Remove plans to take away every Pod and the node's Pod network.
func (r *Runtime) Remove(ctx context.Context) (dataplane.Plan, error) {
	obs, err := r.observe()
	if err = ignoreDamage(err); err != nil {
		return nil, err
	}
	net, err := r.cfg.Net.Remove(ctx)
	if err != nil {
		return nil, err
	}
	return &deletePlan{runtime: r, victims: victims(obs, nil), net: net, all: true}, nil
}

// planDelete plans to end the Pods that a function picks.
func (r *Runtime) planDelete(ctx context.Context, obs observation, pick func(name string) bool) (dataplane.Plan, error) {
	vs := victims(obs, pick)
	var names []string
	for _, v := range vs {
		names = append(names, networkOf(v.name))
	}
	for _, name := range obs.networks(r) {
		if pick(name) && !slices.Contains(names, networkOf(name)) {
			names = append(names, networkOf(name))
		}
	}
	net, err := r.cfg.Net.Delete(ctx, names)
	if err != nil {
		return nil, err
	}
	return &deletePlan{runtime: r, victims: vs, net: net}, nil
}

// creation collects what one Plan makes.
type creation struct {
	runtime  *Runtime
	obs      observation
	wanted   map[string]bool
	items    []item
	requests []podnet.Request
	problems []cluster.Problem
	failures []error
}

// item is one wanted Pod of this node.
type item struct {
	pod    *corev1.Pod // as wanted
	live   live
	action action
	reason string
	// after is the Pod as it is after Apply; nil when it cannot be made.
	after *corev1.Pod
}

// Check tells what of a Pod cannot be made here, or is ignored, beyond what is
// wrong with it as an object. Pods of others are none of this package's business.
func Check(p *corev1.Pod) []cluster.Problem {
	if p.Status.PodIP != "" {
		return nil
	}
	var out []cluster.Problem
	for i, gate := range p.Spec.ReadinessGates {
		out = append(out, problem(p, fmt.Sprintf("spec.readinessGates[%d]", i),
			fmt.Sprintf("nobody here sets the condition %s, and without it the Pod is not ready: leave the gate out, or set the condition in the live object", gate.ConditionType), true))
	}
	for i, port := range ports(p) {
		if port.Protocol == corev1.ProtocolSCTP {
			out = append(out, problem(p, fmt.Sprintf("spec.containers[*].ports[%d]", i), "the stand-in serves no SCTP: nothing listens on this port", true))
		}
	}
	return out
}

func problem(p *corev1.Pod, field, message string, warning bool) cluster.Problem {
	return cluster.Problem{Object: cluster.MakeRef(cluster.Pod, p.Namespace, p.Name), Field: field, Message: message, Warning: warning}
}

func (c *creation) add(p *corev1.Pod) {
	if p.Status.PodIP != "" || c.wanted[key(p)] {
		return
	}
	problems := Check(p)
	c.problems = append(c.problems, problems...)
	if slices.ContainsFunc(problems, func(p cluster.Problem) bool { return !p.Warning }) {
		return
	}
	c.wanted[key(p)] = true
	l := c.obs.pods[key(p)]
	it := item{pod: p, live: l}
	it.action, it.reason = decide(p, l, c.runtime.cfg.Net.Fits(l.net))
	if it.action == keep || it.action == relabel {
		c.problems = append(c.problems, failings(p, l.report)...)
	}
	c.items = append(c.items, it)
	if inHostNetwork(p) {
		c.warnAddress(p)
		return
	}
	c.requests = append(c.requests, c.runtime.request(p, it.action == replace))
}

// failings names the containers that have failed, keep failing, or are not
// found ready. How often is left out: what is told stays the same meanwhile.
func failings(p *corev1.Pod, rep report) []cluster.Problem {
	var out []cluster.Problem
	for _, r := range rep.Containers {
		field := containerField(p, r.Name)
		switch {
		case r.crashing():
			out = append(out, problem(p, field, fmt.Sprintf("container %s keeps ending (%s) and is started again after a wait; see toyproxy logs --previous", r.Name, r.end().why()), true))
		case r.failed() && (r.Reason == reasonStartError || r.Reason == reasonConfig):
			out = append(out, problem(p, field, fmt.Sprintf("container %s was not started (%s)", r.Name, r.why()), true))
		case r.failed():
			out = append(out, problem(p, field, fmt.Sprintf("container %s has failed (%s), and restartPolicy %s does not start it again", r.Name, r.why(), p.Spec.RestartPolicy), true))
		case r.GaveUp:
			out = append(out, problem(p, field, fmt.Sprintf("container %s is not ready (%s)", r.Name, r.Unready), true))
		}
	}
	return out
}

// containerField is where a container stands in its Pod.
func containerField(p *corev1.Pod, name string) string {
	for i, c := range p.Spec.InitContainers {
		if c.Name == name {
			return fmt.Sprintf("spec.initContainers[%d]", i)
		}
	}
	i := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	return fmt.Sprintf("spec.containers[%d]", i)
}

func ports(p *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, c := range p.Spec.Containers {
		if len(c.Command) == 0 {
			out = append(out, c.Ports...)
		}
	}
	return out
}

func (c *creation) problem(p *corev1.Pod, field, message string, warning bool) {
	c.problems = append(c.problems, problem(p, field, message, warning))
}

// useNetworks gives the Pods the addresses that are planned for them.
func (c *creation) useNetworks(plan *podnet.Plan) {
	nets := map[string]podnet.Network{}
	for _, n := range plan.Networks {
		nets[n.Name] = n
	}
	failed := map[string]error{}
	for _, f := range plan.Failures {
		failed[f.Name] = f.Err
	}
	for i := range c.items {
		it := &c.items[i]
		name := NetworkName(it.pod.Namespace, it.pod.Name)
		if err := failed[name]; err != nil {
			c.problem(it.pod, "", err.Error(), false)
			c.failures = append(c.failures, fmt.Errorf("Pod %s: %w", key(it.pod), err))
			continue
		}
		switch it.action {
		case keep:
			it.after = it.live.settled()
		case relabel:
			it.after = it.live.settled().DeepCopy()
			created := it.after.CreationTimestamp
			it.pod.ObjectMeta.DeepCopyInto(&it.after.ObjectMeta)
			it.after.CreationTimestamp = created
		default:
			it.after = predicted(it.pod, c.runtime.addresses(it.pod, nets[name]), c.runtime.cfg.HostAddrs)
		}
	}
}

// pods returns the wanted Pods as they will be, others' among them.
func (c *creation) pods(wanted []*corev1.Pod) []*corev1.Pod {
	after := map[string]*corev1.Pod{}
	for _, it := range c.items {
		after[key(it.pod)] = it.after
	}
	var out []*corev1.Pod
	for _, p := range wanted {
		if p.Status.PodIP == "" {
			p = after[key(p)]
		}
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

func (c *creation) plan(net *podnet.Plan) *createPlan {
	p := &createPlan{runtime: c.runtime, net: net, failures: errors.Join(c.failures...)}
	for _, it := range c.items {
		if it.after == nil {
			continue
		}
		if (it.action == keep || it.action == relabel) && it.live.starting() {
			p.starting = append(p.starting, begun{it.pod, it.live.pause})
		}
		switch it.action {
		case relabel:
			p.relabelled = append(p.relabelled, it)
		case replace:
			p.replaced = append(p.replaced, victim{name: key(it.pod), live: it.live})
			p.started = append(p.started, it)
		case create:
			p.started = append(p.started, it)
		}
	}
	return p
}

// replacedNames names the Pods that are ended and made anew.
func (p *createPlan) replacedNames() []types.NamespacedName {
	var out []types.NamespacedName
	for _, v := range p.replaced {
		ns, name, _ := strings.Cut(v.name, "/")
		out = append(out, types.NamespacedName{Namespace: ns, Name: name})
	}
	return out
}
