package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/podnet"
)

const (
	// defaultGrace is what a Pod without terminationGracePeriodSeconds gets.
	defaultGrace = 30 * time.Second
	// pauseGrace is what a pause process gets on top for its own end.
	pauseGrace = 5 * time.Second
)

// victim is a Pod that is ended.
type victim struct {
	name string // NAMESPACE/NAME
	live live
}

// victims are the observed Pods that a function picks; nil picks all.
func victims(obs observation, pick func(name string) bool) []victim {
	var out []victim
	for _, name := range obs.sorted() {
		if pick == nil || pick(name) {
			out = append(out, victim{name, obs.pods[name]})
		}
	}
	return out
}

// networks are the Pods, by NAMESPACE/NAME, whose network is there and nothing
// else of them: a crash came before the rest, or their file was lost.
func (o observation) networks(r *Runtime) []string {
	nets, err := r.cfg.Net.Networks()
	if err != nil {
		return nil // observe has read it before, and told
	}
	var out []string
	for _, n := range nets {
		if _, ok := o.pods[n.For]; !ok && n.For != "" {
			out = append(out, n.For)
		}
	}
	return out
}

func (v victim) change(reason string) dataplane.Change {
	return dataplane.Change{Op: dataplane.Remove, Object: "Pod " + v.name, For: v.name, Reason: reason}
}

// deletePlan ends Pods.
type deletePlan struct {
	runtime *Runtime
	victims []victim
	net     *podnet.Plan
	// all: nothing is to be left, not even empty directories.
	all bool
}

// Remarks tells what the plan of the networks leaves as it is.
func (p *deletePlan) Remarks() []string { return p.net.Remarks() }

// Changes lists the Pods, then their networks.
func (p *deletePlan) Changes() []dataplane.Change {
	reason := "no longer wanted"
	if p.all {
		reason = "everything goes"
	}
	var out []dataplane.Change
	for _, v := range p.victims {
		out = append(out, v.change(reason))
	}
	return append(out, p.net.Changes()...)
}

// Apply ends the Pods, all at once, then takes away their networks and files.
func (p *deletePlan) Apply(ctx context.Context) error {
	r := p.runtime
	if err := r.end(ctx, p.victims); err != nil {
		return err
	}
	if err := p.net.Apply(ctx); err != nil {
		return err
	}
	var errs []error
	for _, v := range p.victims {
		errs = append(errs, r.forget(v.id()))
	}
	if p.all {
		for _, dir := range []string{"pods", "pause", "logs", "world"} {
			errs = append(errs, os.RemoveAll(filepath.Join(r.cfg.StateDir, dir)))
		}
	}
	return errors.Join(errs...)
}

func (v victim) id() types.NamespacedName {
	dir, name := filepath.Split(v.name)
	return types.NamespacedName{Namespace: filepath.Clean(dir), Name: name}
}

// forget removes the files of a Pod.
func (r *Runtime) forget(id types.NamespacedName) error {
	return errors.Join(
		r.state.Delete(id),
		os.RemoveAll(reportPath(r.cfg.StateDir, id.Namespace, id.Name)),
		os.RemoveAll(logDir(r.cfg.StateDir, id.Namespace, id.Name)))
}

// end ends the processes of Pods: TERM for all pause processes, which end their
// containers within the grace period; then KILL for what is left.
func (r *Runtime) end(ctx context.Context, vs []victim) error {
	var errs []error
	for _, v := range vs {
		if v.live.held {
			errs = append(errs, v.live.pause.signal(unix.SIGTERM))
		}
	}
	began := time.Now()
	for _, v := range vs {
		if err := r.finish(ctx, v, began); err != nil {
			errs = append(errs, fmt.Errorf("Pod %s: %w", v.name, err))
		}
	}
	return errors.Join(errs...)
}

// finish waits for the processes of one Pod to end, and kills them when that
// takes longer than its grace period.
func (r *Runtime) finish(ctx context.Context, v victim, began time.Time) error {
	pause := v.live.pause
	if !v.live.held {
		pause = v.live.report.process
	}
	netns := r.home(v.live.pod, v.name)
	if v.live.held && v.live.astray {
		netns = netnsOf(pause.Pid)
	}
	limit := began.Add(grace(v.live.pod) + pauseGrace)
	defer r.tellLater(fmt.Sprintf("waiting for Pod %s to end: it is killed %s after TERM (spec.terminationGracePeriodSeconds)", v.name, grace(v.live.pod)))()
	if err := waitEnd(ctx, pause, limit); err != nil {
		return err
	}
	if pause.Pid == 0 {
		return nil
	}
	left, err := survivors(pause, netns)
	if err != nil {
		return err
	}
	for _, p := range left {
		if err := errors.Join(p.signal(unix.SIGKILL), waitEnd(ctx, p, time.Now().Add(pauseGrace))); err != nil {
			return err
		}
	}
	return nil
}

// waitEnd waits until a process has ended, and kills it after the limit.
func waitEnd(ctx context.Context, p process, limit time.Time) error {
	killed := false
	for p.alive() {
		if !killed && time.Now().After(limit) {
			killed = true
			if err := p.signal(unix.SIGKILL); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for process %d to end: %w", p.Pid, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// grace is how long a Pod's containers have after TERM.
func grace(p *corev1.Pod) time.Duration {
	if p == nil || p.Spec.TerminationGracePeriodSeconds == nil {
		return defaultGrace
	}
	return time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
}

// ignoreDamage drops the errors that only name damaged state files: what they
// held is seen as missing, and made anew.
func ignoreDamage(err error) error {
	var damaged *state.CorruptError
	if !errors.As(err, &damaged) {
		return err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var rest []error
	for _, e := range joined.Unwrap() {
		rest = append(rest, ignoreDamage(e))
	}
	return errors.Join(rest...)
}
