package main

import (
	"context"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/ingress"
)

// loadServed is load, with what is wrong with the objects for who serves them. State
// is the directory of the live objects, whose ages count; it may be empty.
func (s source) loadServed(ctx context.Context, stateDir string) (agent.Input, error) {
	in, err := s.load(ctx)
	if err == nil {
		in.Problems = append(in.Problems, servedProblems(in, stateDir)...)
	}
	return in, err
}

// servedProblems says what `toyproxy ingress` finds wrong with Ingresses: two that
// want the same path, a Service that is not there, a value that cannot be read. They
// are in force all the same, as far as they can be, so these are warnings. What the
// input says of a field already is not said again.
func servedProblems(in agent.Input, stateDir string) []cluster.Problem {
	if len(in.Objects.Ingresses) == 0 {
		return nil
	}
	type place struct {
		object cluster.Ref
		field  string
	}
	said := map[place]bool{}
	for _, p := range in.Problems {
		said[place{p.Object, p.Field}] = true
	}
	found := ingress.Compile(ingress.Input{Ingresses: withAges(in.Objects.Ingresses, stateDir), Classes: in.Objects.IngressClasses,
		Services: in.Objects.Services, Secrets: in.Objects.Secrets}).Problems
	found = slices.DeleteFunc(slices.Clone(found), func(p cluster.Problem) bool { return said[place{p.Object, p.Field}] })
	for i := range found {
		found[i].Warning = true
	}
	return located(slices.Compact(found), in)
}

// withAges gives Ingresses the age of the live ones, on copies: of two that want the
// same path the older has it. Those that do not live yet will be the youngest.
func withAges(all []*networkingv1.Ingress, stateDir string) []*networkingv1.Ingress {
	if stateDir == "" {
		return all
	}
	live, _ := state.OpenDoors(stateDir).Ingresses.List() // damaged ones are told by who reads all
	born := map[cluster.Ref]*networkingv1.Ingress{}
	for _, i := range live {
		born[cluster.MakeRef(cluster.Ingress, i.Namespace, i.Name)] = i
	}
	out := slices.Clone(all)
	now := metav1.Now()
	for n, i := range all {
		if !i.CreationTimestamp.IsZero() {
			continue
		}
		out[n] = i.DeepCopy()
		out[n].CreationTimestamp = now
		if old := born[cluster.MakeRef(cluster.Ingress, i.Namespace, i.Name)]; old != nil {
			out[n].CreationTimestamp = old.CreationTimestamp
		}
	}
	return out
}
