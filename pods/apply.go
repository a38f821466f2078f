package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/podnet"
)

// tellAfter is how long people wait before they are told what for.
const tellAfter = 2 * time.Second

// tellLater tells people what is waited for unless the function that it returns
// is called soon.
func (r *Runtime) tellLater(what string) (done func() bool) {
	return time.AfterFunc(tellAfter, func() { r.cfg.Progress(what) }).Stop
}

// pollEvery is how often a report or a process is looked at while waiting.
const pollEvery = 10 * time.Millisecond

// StartError tells why a container of a new Pod did not come up. The Pod exists
// all the same, and is not ready.
type StartError struct {
	Pod, Container, Reason, Message string
	// Log is the file that the container wrote to.
	Log string
}

// Error names Pod, container and reason.
func (e *StartError) Error() string {
	s := fmt.Sprintf("Pod %s: container %s: %s: %s", e.Pod, e.Container, e.Reason, e.Message)
	if e.Log != "" {
		s += "; see " + e.Log
	}
	return s
}

// createPlan makes Pods.
type createPlan struct {
	runtime  *Runtime
	net      *podnet.Plan
	replaced []victim
	// withdraw is called before the replaced Pods are ended; may be nil.
	withdraw   func(context.Context) error
	started    []item
	relabelled []item
	// starting are Pods that an earlier pass has started and not waited for.
	starting []begun
	// failures are the Pods that cannot be made, as one error.
	failures error
}

// Changes lists replaced Pods, networks, and new Pods.
func (p *createPlan) Changes() []dataplane.Change {
	var out []dataplane.Change
	for _, v := range p.replaced {
		i := slices.IndexFunc(p.started, func(it item) bool { return key(it.pod) == v.name })
		out = append(out, v.change(p.started[i].reason))
	}
	out = append(out, p.net.Changes()...)
	for _, it := range p.started {
		out = append(out, dataplane.Change{Op: dataplane.Add, Object: "Pod " + key(it.pod), For: key(it.pod), Reason: it.reason, Lines: containerLines(it.pod)})
	}
	for _, it := range p.relabelled {
		out = append(out, dataplane.Change{Op: dataplane.Update, Object: "Pod " + key(it.pod), For: key(it.pod), Reason: it.reason})
	}
	return out
}

// Remarks tells what the plan of the networks leaves as it is.
func (p *createPlan) Remarks() []string { return p.net.Remarks() }

// containerLines shows what runs in a Pod.
func containerLines(p *corev1.Pod) []string {
	var out []string
	for _, c := range p.Spec.Containers {
		line := "+ " + c.Name + ": " + strings.Join(append(slices.Clone(c.Command), c.Args...), " ")
		if len(c.Command) == 0 {
			line = "+ " + c.Name + ": " + standInImage
			for _, port := range c.Ports {
				line += fmt.Sprintf(" %d/%s", port.ContainerPort, port.Protocol)
			}
		}
		out = append(out, line)
	}
	return out
}

// Apply makes the Pods, and waits until their containers are ready or have
// failed. A Pod that fails stops no other. Those that are replaced come last and
// together: until then the old ones serve, however long a new one takes.
func (p *createPlan) Apply(ctx context.Context) error {
	r := p.runtime
	replaced := map[string]bool{}
	for _, v := range p.replaced {
		replaced[networkOf(v.name)] = true
	}
	var fresh, again []item
	for _, it := range p.started {
		if replaced[NetworkName(it.pod.Namespace, it.pod.Name)] {
			again = append(again, it)
		} else {
			fresh = append(fresh, it)
		}
	}
	first, later := p.net.Split(replaced)
	wait, ok, err := r.make(ctx, first, fresh)
	errs := []error{p.failures, err, r.await(ctx, append(wait, p.starting...))}
	if len(again) > 0 && ok && ctx.Err() == nil {
		if p.withdraw != nil {
			errs = append(errs, p.withdraw(ctx))
		}
		errs = append(errs, r.end(ctx, p.replaced))
		wait, _, err = r.make(ctx, later, again)
		errs = append(errs, err, r.await(ctx, wait))
	}
	for _, it := range p.relabelled {
		_, err := r.state.Save(it.after)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// make makes networks and starts the Pods that live in them. It is not ok when it
// failed before it came to any of the networks.
func (r *Runtime) make(ctx context.Context, net *podnet.Plan, items []item) (wait []begun, ok bool, err error) {
	netErr := net.Apply(ctx)
	unfinished := net.Unfinished()
	if netErr != nil && len(unfinished) == 0 {
		return nil, false, netErr
	}
	errs := []error{netErr}
	for _, it := range items {
		if unfinished[NetworkName(it.pod.Namespace, it.pod.Name)] {
			continue
		}
		pause, err := r.start(ctx, it)
		if err != nil {
			errs = append(errs, fmt.Errorf("Pod %s: %w", key(it.pod), err))
			continue
		}
		wait = append(wait, begun{it.pod, pause})
	}
	return wait, true, errors.Join(errs...)
}

// begun is a Pod whose pause process was started.
type begun struct {
	pod   *corev1.Pod
	pause process
}

// start writes a Pod down and starts its pause process, which does the rest.
func (r *Runtime) start(ctx context.Context, it item) (process, error) {
	if err := ctx.Err(); err != nil {
		return process{}, err
	}
	p := it.after.DeepCopy()
	now := metav1.NewTime(r.cfg.Now())
	if p.CreationTimestamp.IsZero() {
		p.CreationTimestamp = now
	}
	p.Status.StartTime = &now
	setContainers(p, nil)
	p.Status.Phase = corev1.PodPending
	if err := os.RemoveAll(reportPath(r.cfg.StateDir, p.Namespace, p.Name)); err != nil {
		return process{}, fmt.Errorf("report of its last pause process: %w", err)
	}
	if _, err := r.state.Save(p); err != nil {
		return process{}, err
	}
	return r.startPause(p)
}

func (r *Runtime) startPause(p *corev1.Pod) (process, error) {
	log, err := openLog(LogPath(r.cfg.StateDir, p.Namespace, p.Name, "pause"))
	if err != nil {
		return process{}, err
	}
	defer log.Close()
	cmd := exec.Command(r.cfg.Program)
	cmd.Args = append([]string{"toyproxy"}, pauseArgs(key(p), r.cfg.StateDir)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	// A session of its own: nothing that ends this process's terminal or group
	// reaches the Pod.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := r.surround(cmd, p); err != nil {
		return process{}, err
	}
	if r.cfg.Backoff != (Backoff{}) {
		cmd.Env = append(cmd.Environ(), r.cfg.Backoff.env())
	}
	if err := r.inside(p, cmd.Start); err != nil {
		return process{}, fmt.Errorf("pause process: %w", err)
	}
	awaitName(cmd.Process.Pid)
	// It is our child: even if it has ended, its number is still its own.
	s, err := readStat(cmd.Process.Pid)
	if err != nil {
		return process{}, fmt.Errorf("pause process: %w", err)
	}
	return process{s.pid, s.start}, cmd.Process.Release()
}

// awaitName waits until a process that was started shows its command line, which is
// a moment after its start is known: who looks for it before then would not find
// it, and start another.
func awaitName(pid int) {
	for end := time.Now().Add(tellAfter); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || len(b) > 0 {
			return
		}
		if s, err := readStat(pid); err != nil || s.dead() {
			return
		}
	}
}

// await waits until every container of these Pods is ready or has ended, and
// keeps the Pods as they are then.
func (r *Runtime) await(ctx context.Context, pods []begun) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StartTimeout)
	defer cancel()
	var errs []error
	for _, p := range pods {
		if err := r.awaitOne(ctx, p); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (r *Runtime) awaitOne(ctx context.Context, p begun) error {
	defer r.tellLater(fmt.Sprintf("waiting for Pod %s to be ready (at most %s)", key(p.pod), r.cfg.StartTimeout))()
	path := reportPath(r.cfg.StateDir, p.pod.Namespace, p.pod.Name)
	for {
		// In this order: what it reported before its end is read.
		alive := p.pause.alive()
		rep, exists, err := readReport(path)
		if err != nil {
			return err
		}
		if exists && len(unsettled(rep)) == 0 {
			return r.startErrors(p.pod, rep)
		}
		if !alive {
			log := LogPath(r.cfg.StateDir, p.pod.Namespace, p.pod.Name, "pause")
			return &StartError{key(p.pod), "pause", reasonPauseGone, "the pause process has ended: " + cmp.Or(lastLine(log), "it said nothing"), log}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("Pod %s: interrupted before it was ready: %w", key(p.pod), ctx.Err())
			}
			what := cmp.Or(strings.Join(unsettled(rep), ", "), "its pause process has not reported")
			return fmt.Errorf("Pod %s: not ready within %s: %s: %w", key(p.pod), r.cfg.StartTimeout, what, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// unsettled tells which containers are still to be waited for.
func unsettled(rep report) []string {
	var out []string
	for _, c := range rep.Containers {
		if c.Role != mainRole && (c.failed() || c.GaveUp) {
			return nil // those after it will not start soon
		}
		if !c.settled() {
			out = append(out, strings.TrimSuffix(c.Name+" is "+string(c.Phase)+": "+c.Unready, ": "))
		}
	}
	return out
}

func (r *Runtime) startErrors(p *corev1.Pod, rep report) error {
	var errs []error
	for _, c := range rep.Containers {
		switch log := LogPath(r.cfg.StateDir, p.Namespace, p.Name, c.Name); {
		case c.failed():
			errs = append(errs, &StartError{key(p), c.Name, c.end().Reason, c.end().Message, log})
		case c.GaveUp:
			errs = append(errs, &StartError{key(p), c.Name, reasonUnhealthy, c.Unready, log})
		}
	}
	return errors.Join(errs...)
}
