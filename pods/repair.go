package pods

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/podnet"
)

const (
	// inspected is how many Pods a Repair looks at from inside: to enter a namespace
	// takes its time.
	inspected = 40
	// turnEvery is how long the same Pods are inspected, where there are more.
	turnEvery = 5 * time.Second
)

// Repair plans to mend what somebody has taken away of the node's Pod network and
// of that of these Pods, which live: bridge, addresses, routes, links, namespaces
// and kernel parameters. All are looked at from the node's side; from inside those
// that look wrong, and of the others some, in turn.
func (r *Runtime) Repair(ctx context.Context, living []*corev1.Pod) (dataplane.Plan, error) {
	suspects, err := r.cfg.Net.Suspects()
	if err != nil {
		return nil, err
	}
	turns := int64(len(living)/inspected + 1)
	turn := r.cfg.Now().Unix() / int64(turnEvery/time.Second) % turns
	var attached dataplane.Plans
	var requests []podnet.Request
	for i, p := range living {
		if inHostNetwork(p) {
			continue
		}
		req := r.request(p, false)
		if suspects[req.Name] {
			plan, err := r.attach(p, req.Name)
			if err != nil {
				return nil, err
			}
			if plan != nil { // the rest is looked at once it has its name
				attached = append(attached, plan)
				continue
			}
		}
		if suspects[req.Name] || int64(i)%turns == turn {
			requests = append(requests, req)
		}
	}
	plan, err := r.cfg.Net.Create(ctx, requests)
	if err != nil {
		return nil, err
	}
	for _, f := range plan.Failures {
		return nil, fmt.Errorf("network %s: %w", f.Name, f.Err)
	}
	return append(attached, plan), nil
}

// attach plans to give a Pod's network its name again, which somebody has taken
// away: the Pod lives on in it, and is reached, and must not get another.
func (r *Runtime) attach(p *corev1.Pod, network string) (dataplane.Plan, error) {
	rep, reported, err := readReport(reportPath(r.cfg.StateDir, p.Namespace, p.Name))
	if err != nil || !reported || !rep.alive() {
		return nil, err
	}
	return r.cfg.Net.Attach(network, key(p), rep.Pid)
}
