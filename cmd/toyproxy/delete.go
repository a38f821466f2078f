package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// deleteFlags are kubectl's.
type deleteFlags struct {
	place         placeFlags
	grace         int64
	now, force    bool
	wait, all     bool
	ignoreMissing bool
	selector      string
	timeout       time.Duration
	out           outputFlag
}

func deleteCommand() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   "delete pod NAME...",
		Short: "End Pods: what they belong to makes others",
		Long: `Ends Pods: they leave the rules first, then their processes get TERM, and KILL after
the grace period. The Deployment, StatefulSet, DaemonSet or manifest that a Pod comes
from makes another in its place.`,
		Example: `  sudo toyproxy delete pod web-7c5d9-x2k4v
  sudo toyproxy delete pod -l app=web --now`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.place.register(cmd)
	fl := cmd.Flags()
	fl.Int64Var(&f.grace, "grace-period", -1, "seconds between TERM and KILL (-1: what the Pod says)")
	fl.BoolVar(&f.now, "now", false, "as --grace-period=1")
	fl.BoolVar(&f.force, "force", false, "with --grace-period=0: KILL at once")
	fl.BoolVar(&f.wait, "wait", true, "return when the Pods are gone")
	fl.BoolVar(&f.all, "all", false, "all Pods of the namespace")
	fl.BoolVar(&f.ignoreMissing, "ignore-not-found", false, "succeed when a Pod does not exist")
	fl.StringVarP(&f.selector, "selector", "l", "", "label selector, such as app=web,tier!=db")
	fl.DurationVar(&f.timeout, "timeout", 0, "how long to wait for the end (0: for ever)")
	f.out.register(cmd, "name")
	return cmd
}

func (f *deleteFlags) run(cmd *cobra.Command, args []string) error {
	if f.now {
		f.grace = 1
	}
	if f.grace == 0 && !f.force {
		f.grace = 1 // as kubectl does
	}
	targets, err := f.targets(args)
	if err != nil {
		return err
	}
	var errs []error
	var begun []target
	ids := map[types.NamespacedName]types.UID{}
	for _, t := range targets {
		id, err := f.delete(t)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ids[t.NamespacedName] = id
		begun = append(begun, t)
	}
	errs = append(errs, f.tell(cmd, begun, ids))
	return errors.Join(errs...)
}

// targets are the Pods that are named, or that a selector picks.
func (f *deleteFlags) targets(args []string) ([]target, error) {
	kind, out, err := podKind().parse(args, f.place.namespace)
	selecting := f.all || f.selector != ""
	switch {
	case err != nil && !isPods(args[0]):
		err = fmt.Errorf("only pods can be deleted; what manifests say goes when it is taken out of them (%w)", err)
	case err == nil && selecting == (len(out) > 0):
		err = errors.New("name the Pods, or say --all, or which with -l: one of these")
	}
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	if !selecting {
		return out, nil
	}
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return nil, exit(exitUsage, fmt.Errorf("selector %q: %w", f.selector, err))
	}
	pods, err := state.OpenPods(f.place.stateDir()).List()
	for _, p := range pods {
		if p.Namespace == f.place.namespace && selector.Matches(labels.Set(p.Labels)) {
			out = append(out, kind.named(p.Namespace, p.Name))
		}
	}
	return out, err
}

func isPods(arg string) bool {
	_, err := podKind().find(arg)
	return err == nil
}

// delete marks a Pod as one that is to end, and returns which it was.
func (f *deleteFlags) delete(t target) (types.UID, error) {
	dir := state.OpenPods(f.place.stateDir())
	if _, err := dir.Load(t.NamespacedName); err != nil {
		if f.ignoreMissing {
			return "", nil
		}
		if _, err := readLive(f.place.stateDir(), t); err == nil {
			return "", fmt.Errorf("pod %q is not kept by this node: it is in the manifests with an address, so take it out there", t.Name)
		}
		return "", absent(t, err)
	}
	var id types.UID
	err := dir.Update(t.NamespacedName, func(p *corev1.Pod, exists bool) (*corev1.Pod, bool) {
		if !exists {
			return p, false
		}
		id = p.UID
		return p, mark(p, f.grace, time.Now())
	})
	return id, mayNotWrite(err)
}

// mark notes on a Pod when it is to be gone; a later time than before is none. It
// tells whether the Pod has changed.
func mark(p *corev1.Pod, grace int64, now time.Time) bool {
	if grace < 0 {
		grace = int64(corev1.DefaultTerminationGracePeriodSeconds)
		if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
			grace = *g
		}
	}
	at := metav1.NewTime(now.Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	if old := p.DeletionTimestamp; old != nil && !at.Before(old) {
		return false
	}
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	return true
}

// tell prints what was begun, and waits for its end if it can come.
func (f *deleteFlags) tell(cmd *cobra.Command, begun []target, ids map[types.NamespacedName]types.UID) error {
	if len(begun) == 0 {
		if f.all || f.selector != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "No resources found")
		}
		return nil
	}
	for _, t := range begun {
		switch {
		case ids[t.NamespacedName] == "" && f.ignoreMissing:
		case f.out.value == "name":
			fmt.Fprintln(cmd.OutOrStdout(), t)
		default:
			fmt.Fprintf(cmd.OutOrStdout(), "pod %q deleted from %s namespace\n", t.Name, t.Namespace)
		}
	}
	if _, held := f.place.keeper(); !held {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: no 'toyproxy run' keeps this node now: they end with the next %s\n", f.place.syncLine())
		return nil
	}
	if !f.wait {
		return nil
	}
	return f.await(cmd, begun, ids)
}

// await returns when none of the Pods is there any more.
func (f *deleteFlags) await(cmd *cobra.Command, begun []target, ids map[types.NamespacedName]types.UID) error {
	ctx, cancel := withTimeout(cmd.Context(), f.timeout)
	defer cancel()
	dir := state.OpenPods(f.place.stateDir())
	var left []target
	err := eachChange(ctx, f.place.stateDir(), nil, func() (bool, error) {
		left = nil
		for _, t := range begun {
			if p, err := dir.Load(t.NamespacedName); err == nil && p.UID == ids[t.NamespacedName] {
				left = append(left, t)
			}
		}
		return len(left) == 0, nil
	})
	if err == nil && len(left) > 0 && cmd.Context().Err() == nil {
		err = fmt.Errorf("timed out waiting for the condition on %s/%s", left[0].plural, left[0].Name)
	}
	return err
}
