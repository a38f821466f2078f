package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/podnet"
)

// Make writes Pods down, makes their networks and starts their pause processes,
// and does not wait for what those do. It returns those that could not be made,
// and why; they stop no other, and are found half made by the next Survey.
func (r *Runtime) Make(ctx context.Context, wanted []*corev1.Pod) map[types.NamespacedName]error {
	failed := map[types.NamespacedName]error{}
	net, err := r.cfg.Net.Create(ctx, r.requests(wanted))
	if err != nil {
		r.writeDown(&podnet.Plan{}, wanted, failed)
		return failAll(failed, wanted, err)
	}
	items := r.writeDown(net, wanted, failed)
	netErr := net.Apply(ctx)
	unfinished := net.Unfinished()
	if netErr != nil && len(unfinished) == 0 {
		return failAll(failed, wanted, netErr)
	}
	for _, it := range items {
		id := idOf(it.pod)
		if unfinished[NetworkName(id.Namespace, id.Name)] {
			failed[id] = netErr
		} else if _, err := r.start(ctx, it); err != nil {
			failed[id] = err
		}
	}
	return failed
}

// failAll gives all Pods the same fault.
func failAll(failed map[types.NamespacedName]error, pods []*corev1.Pod, err error) map[types.NamespacedName]error {
	for _, p := range pods {
		if failed[idOf(p)] == nil {
			failed[idOf(p)] = err
		}
	}
	return failed
}

func idOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// writeDown keeps Pods as pending, with the addresses that are planned for them,
// before anything of them is made: what is there belongs to a Pod that is known.
func (r *Runtime) writeDown(net *podnet.Plan, wanted []*corev1.Pod, failed map[types.NamespacedName]error) []item {
	addrs := map[string]podnet.Network{}
	for _, n := range net.Networks {
		addrs[n.Name] = n
	}
	for _, f := range net.Failures {
		for _, p := range wanted {
			if NetworkName(p.Namespace, p.Name) == f.Name {
				failed[idOf(p)] = f.Err
			}
		}
	}
	var items []item
	for _, p := range wanted {
		it := item{pod: p, after: predicted(p, r.addresses(p, addrs[NetworkName(p.Namespace, p.Name)]), r.cfg.HostAddrs)}
		if err := r.savePending(it.after); err != nil {
			failed[idOf(p)] = err
		}
		if failed[idOf(p)] == nil {
			items = append(items, it)
		}
	}
	return items
}

// savePending writes a Pod down of which nothing has been started.
func (r *Runtime) savePending(p *corev1.Pod) error {
	pending := p.DeepCopy()
	if pending.CreationTimestamp.IsZero() {
		pending.CreationTimestamp = metav1.NewTime(r.cfg.Now())
		p.CreationTimestamp = pending.CreationTimestamp
	}
	setContainers(pending, nil)
	pending.Status.Phase = corev1.PodPending
	_, err := r.state.Save(pending)
	return err
}

// Change changes the object of a Pod by a function, which says whether it did.
// A Pod that is not kept is left alone.
func (r *Runtime) Change(_ context.Context, name types.NamespacedName, change func(*corev1.Pod) bool) error {
	return r.state.Update(name, func(p *corev1.Pod, exists bool) (*corev1.Pod, bool) {
		return p, exists && change(p)
	})
}

// End tells the pause processes of Pods to end, kills those that had their time,
// and does not wait.
func (r *Runtime) End(_ context.Context, victims []Seen) error {
	var errs []error
	for _, s := range victims {
		if !s.live.held {
			continue
		}
		sig := unix.SIGTERM
		if s.Ending() && r.cfg.Now().After(s.Deadline()) {
			sig = unix.SIGKILL
		}
		errs = append(errs, s.live.pause.signal(sig))
	}
	return errors.Join(errs...)
}

// Bury takes away what Pods have left that have ended: processes, networks, files
// and the lease of their addresses. One whose processes have not all ended yet is
// left for the next time.
func (r *Runtime) Bury(ctx context.Context, dead []Seen) error {
	var errs []error
	var names []string
	var ids []types.NamespacedName
	for _, s := range dead {
		gone, err := r.clearProcesses(s)
		errs = append(errs, err)
		if err == nil && gone {
			errs = append(errs, r.tellLost(s))
			ids = append(ids, s.Name)
			names = append(names, NetworkName(s.Name.Namespace, s.Name.Name))
		}
	}
	if len(ids) == 0 {
		return errors.Join(errs...)
	}
	net, err := r.cfg.Net.Delete(ctx, names)
	if err == nil {
		err = net.Apply(ctx)
	}
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, id := range ids {
		errs = append(errs, r.forget(id))
	}
	return errors.Join(errs...)
}

// clearProcesses kills what a pause process has left, and tells whether nothing
// is left any more.
func (r *Runtime) clearProcesses(s Seen) (gone bool, err error) {
	pause := s.live.report.process
	if s.live.held {
		pause = s.live.pause
	}
	if pause.Pid == 0 {
		return true, nil
	}
	if pause.alive() { // asked also so that a child of ours is reaped
		return false, nil
	}
	netns := r.home(s.Pod, s.Name.String())
	left, err := survivors(pause, netns)
	if err != nil {
		return false, err
	}
	for _, p := range left {
		if err := p.signal(unix.SIGKILL); err != nil {
			return false, fmt.Errorf("Pod %s: %w", s.Name, err)
		}
	}
	return r.wereQuick(left), nil
}

// wereQuick gives killed processes a moment to be gone.
func (r *Runtime) wereQuick(left []process) bool {
	const moment = 50 * time.Millisecond
	for began := time.Now(); time.Since(began) < moment; time.Sleep(pollEvery) {
		alive := false
		for _, p := range left {
			alive = alive || p.alive()
		}
		if !alive {
			return true
		}
	}
	return len(left) == 0
}
