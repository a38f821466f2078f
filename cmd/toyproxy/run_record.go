package main

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
)

// chronicle implements agent.Chronicle with the state directory.
type chronicle struct {
	recorder
	// slices are the names of those that are written, by Service.
	slices map[types.NamespacedName][]types.NamespacedName
	// own are the Pods that were seen to be kept by the node itself: one whose file
	// has just gone is not somebody else's.
	own map[types.NamespacedName]bool
}

func newChronicle(sc scope, last state.Last) *chronicle {
	return &chronicle{recorder{sc, last}, map[types.NamespacedName][]types.NamespacedName{}, map[types.NamespacedName]bool{}}
}

// Record writes all live objects.
func (c *chronicle) Record(ctx context.Context, d agent.Desired) error {
	if err := c.recorder.Record(ctx, d); err != nil {
		return err
	}
	clear(c.slices)
	for _, s := range d.Slices {
		svc := types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
		c.slices[svc] = append(c.slices[svc], types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
	}
	return nil
}

// RecordChange writes the live objects that have changed.
func (c *chronicle) RecordChange(_ context.Context, changed agent.Changed) error {
	if c.sc.pod {
		return nil
	}
	live, now := state.OpenLive(c.sc.stateDir), time.Now().Truncate(time.Second)
	errs := []error{live.WriteEvents(changed.Events, c.madeHere, now)}
	for _, e := range changed.Events {
		if e.Object.Kind == cluster.Pod && e.New == nil {
			delete(c.own, e.Object.NamespacedName)
		}
	}
	for svc, after := range changed.Slices {
		errs = append(errs, live.WriteSlices(c.slices[svc], after, now))
		var names []types.NamespacedName
		for _, s := range after {
			names = append(names, types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		}
		c.slices[svc] = names
		if len(names) == 0 {
			delete(c.slices, svc)
		}
	}
	return errors.Join(errs...)
}

// madeHere tells whether a Pod is kept by the node itself.
func (c *chronicle) madeHere(p *corev1.Pod) bool {
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	if _, err := state.OpenPods(c.sc.stateDir).Load(name); err == nil {
		c.own[name] = true
	}
	return c.own[name]
}
