package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/podnet"
)

// memberPlan is the plan of one node of several.
type memberPlan struct {
	name    string
	backend backendName
	*agent.Plan
}

// plan plans every node, for the Pods that all of them have.
func (f *fleet) plan(ctx context.Context, pods map[string][]*corev1.Pod, fl *pflag.FlagSet) ([]memberPlan, error) {
	var out []memberPlan
	for _, name := range f.names {
		err := within(name, func() error {
			p, err := f.planMember(ctx, name, pods, fl)
			out = append(out, p)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
	}
	return out, nil
}

// planMember plans one node, in its namespace.
func (f *fleet) planMember(ctx context.Context, name string, pods map[string][]*corev1.Pod, fl *pflag.FlagSet) (memberPlan, error) {
	src, nf, sc, in := *f.src, *f.nf, memberScope(f.dir, name), f.in
	src.node.value, nf.netns.value = name, name
	nf.backend.choose(state.ReadLast(sc.rulesDir()).Backend)
	in.Objects.Pods = seenFrom(name, in.Objects.Pods, pods)
	a, err := buildAgent(&src, &nf, sc, &in)
	if err != nil {
		return memberPlan{}, err
	}
	args := strings.TrimSpace("--all-nodes " + arguments(fl))
	a.Record = recorder{sc, state.Last{Backend: string(nf.backend), Manifests: f.source.description, Arguments: args, ClusterDomain: src.domain.value}}
	p, err := a.Plan(ctx, in)
	if err == nil {
		p.Problems = append(p.Problems, nf.backend.shutForward(ctx, sc, p.Table)...)
	}
	return memberPlan{name, nf.backend, p}, err
}

// apply makes the changes of all nodes: first every Pod, then the rules that lead
// to them, and only when no node's rules lead there any more the end of those that
// nobody wants.
func (f *fleet) apply(ctx context.Context, plans []memberPlan, fl *pflag.FlagSet) error {
	var errs []error
	fail := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", name, err))
		}
	}
	failed := map[string]bool{}
	for _, p := range plans {
		err := within(p.name, func() error { return p.Create.Apply(ctx) })
		failed[p.name] = err != nil
		fail(p.name, err)
	}
	now, err := live(ctx, f.dir, f.names)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if plans, err = f.plan(ctx, now, fl); err != nil {
		return errors.Join(append(errs, err)...)
	}
	ends := map[string]dataplane.Plan{}
	for _, p := range plans {
		ends[p.name], p.Delete = p.Delete, dataplane.Plans(nil)
		err := within(p.name, func() error { return p.Apply(ctx) })
		if !failed[p.name] { // else it was said why already
			fail(p.name, err)
		}
	}
	for _, p := range plans {
		fail(p.name, within(p.name, func() error { return ends[p.name].Apply(ctx) }))
	}
	return errors.Join(errs...)
}

// lockAll makes this process the only writer of the wire and of all nodes.
func (f *fleet) lockAll(ctx context.Context, names []string) (unlock func(forget bool), err error) {
	var locks []*state.Node
	unlock = func(forget bool) {
		for _, l := range locks {
			if forget {
				l.Forget()
			} else {
				l.Unlock()
			}
		}
	}
	for _, name := range names {
		err := within(name, func() error {
			l, err := lockNode(ctx, memberScope(f.dir, name))
			if err == nil {
				locks = append(locks, l)
			}
			return err
		})
		if err != nil {
			unlock(false)
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
	}
	return unlock, nil
}

// lockWire keeps other passes over all nodes out.
func lockWire(ctx context.Context, dir string) (*state.Node, error) {
	id, err := podnet.NamespaceID()
	if err != nil {
		return nil, err
	}
	for _, d := range []string{defaultStateDir, dir} {
		if err := checkOwner(d); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	holder := fmt.Sprintf("%s, pid %d", strings.Join(os.Args, " "), os.Getpid())
	return state.Lock(ctx, fmt.Sprintf("%s/nodes/wire-%d", defaultStateDir, id), dir, holder)
}

// emptyNodes removes what stands in nodes: rules, then Pods and their network. The
// changes are those that were made, or with dryRun would be.
func emptyNodes(ctx context.Context, nf *nodeFlags, names []string, dryRun bool) (changes []dataplane.Change, remarks []string, err error) {
	for _, name := range names {
		sc := memberScope(nf.stateBase(), name)
		err = within(name, func() error {
			a, err := buildAgentForDown(nf, sc)
			if err != nil {
				return err
			}
			p, err := a.Down(ctx)
			if err != nil {
				return err
			}
			for _, c := range p.Changes() {
				c.Object = "node " + name + ": " + c.Object
				changes = append(changes, c)
			}
			remarks = append(remarks, dataplane.Remarks(p)...)
			if dryRun {
				return nil
			}
			if err := p.Apply(ctx); err != nil {
				return err
			}
			return forgetState(sc)
		})
		if err != nil {
			return changes, remarks, fmt.Errorf("node %s: %w", name, err)
		}
	}
	return changes, remarks, nil
}
