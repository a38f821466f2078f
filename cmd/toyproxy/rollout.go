package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/rollout"
)

func rolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Follow, undo, restart, pause and resume rollouts",
		Long:  `Follows and steers the rollouts of Deployments, StatefulSets and DaemonSets.`,
		Example: `  toyproxy rollout status deploy/web
  sudo toyproxy rollout undo deploy/web --to-revision 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(rolloutStatusCommand(), rolloutHistoryCommand(), rolloutUndoCommand(),
		rolloutChangeCommand("restart", "Replace all Pods, little by little", "restarted", func(obj metav1.Object) error { return rollout.Restart(obj, time.Now()) }),
		rolloutChangeCommand("pause", "Let changes of the template wait", "paused", rollout.Pause),
		rolloutChangeCommand("resume", "Act on changes of the template again", "resumed", rollout.Resume))
	return cmd
}

// rolloutChangeCommand is a subcommand that makes one change.
func rolloutChangeCommand(use, short, did string, change func(metav1.Object) error) *cobra.Command {
	var place placeFlags
	cmd := &cobra.Command{
		Use: use + " KIND/NAME...", Short: short, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, err := place.targets(workloadKinds(), args)
			if err != nil {
				return err
			}
			return changeEach(cmd, &place, targets, func(_ target, obj metav1.Object) (string, error) { return did, change(obj) })
		},
	}
	place.register(cmd)
	return cmd
}

// readHistory returns the revisions of a workload, oldest first.
func readHistory(stateDir string, obj metav1.Object) ([]rollout.Revision, error) {
	w := state.OpenWorkloads(stateDir)
	sets, err := w.ReplicaSets.List()
	if err != nil {
		return nil, err
	}
	revisions, err := w.Revisions.List()
	if err != nil {
		return nil, err
	}
	return rollout.History(obj, rollout.Kept{Sets: sets, Revisions: revisions})
}

func rolloutUndoCommand() *cobra.Command {
	var place placeFlags
	var to int64
	cmd := &cobra.Command{
		Use:   "undo KIND/NAME...",
		Short: "Go back to an earlier revision",
		Long: `Gives a workload the template of an earlier revision. It stays so until the
manifest's template changes.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, err := place.targets(workloadKinds(), args)
			if err != nil {
				return err
			}
			return changeEach(cmd, &place, targets, func(_ target, obj metav1.Object) (string, error) {
				history, err := readHistory(place.stateDir(), obj)
				if err != nil {
					return "", err
				}
				return rollout.Undo(obj, history, to)
			})
		},
	}
	place.register(cmd)
	cmd.Flags().Int64Var(&to, "to-revision", 0, "the revision to go back to (0: the one before)")
	return cmd
}

func rolloutHistoryCommand() *cobra.Command {
	var place placeFlags
	var revision int64
	cmd := &cobra.Command{
		Use: "history KIND/NAME...", Short: "Show the revisions that there have been", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, err := place.targets(workloadKinds(), args)
			if err != nil {
				return err
			}
			var errs []error
			for _, t := range targets {
				errs = append(errs, printHistory(cmd.OutOrStdout(), place.stateDir(), t, revision))
			}
			return errors.Join(errs...)
		},
	}
	place.register(cmd)
	cmd.Flags().Int64Var(&revision, "revision", 0, "show this revision in full")
	return cmd
}

func printHistory(w io.Writer, stateDir string, t target, revision int64) error {
	obj, err := readLive(stateDir, t)
	if err != nil {
		return absent(t, err)
	}
	history, err := readHistory(stateDir, obj)
	if err != nil {
		return err
	}
	if revision > 0 {
		r, err := rollout.Find(history, revision)
		if err != nil {
			return fmt.Errorf("%s %q: %w", t.plural, t.Name, err)
		}
		fmt.Fprintf(w, "%s with revision #%d\n", t, revision)
		return describeTemplate(w, r.Template)
	}
	fmt.Fprintf(w, "%s \n", t)
	c := newColumns(w)
	c.row("REVISION", "CHANGE-CAUSE")
	for _, r := range history {
		c.row(strconv.FormatInt(r.Number, 10), orNone(r.Cause))
	}
	if err := c.flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return nil
}

// absent says of an object that does not exist that it was not found.
func absent(t target, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return t.notFound()
	}
	return mayNotRead("reading it", err)
}

// followFlags are those of rollout status.
type followFlags struct {
	watch    bool
	timeout  time.Duration
	revision int64
}

func rolloutStatusCommand() *cobra.Command {
	var place placeFlags
	var f followFlags
	cmd := &cobra.Command{
		Use:   "status KIND/NAME",
		Short: "Follow a rollout to its end",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, err := place.targets(workloadKinds(), args)
			if err != nil {
				return err
			}
			for _, t := range targets {
				if err := f.follow(cmd, &place, t); err != nil {
					return err
				}
			}
			return nil
		},
	}
	place.register(cmd)
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", true, "go on until it is done")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to wait for its end (0: for ever)")
	cmd.Flags().Int64Var(&f.revision, "revision", 0, "fail when another revision than this is rolled out")
	return cmd
}

// follow prints how far a rollout is, each time that it is somewhere else.
func (f *followFlags) follow(cmd *cobra.Command, place *placeFlags, t target) error {
	ctx, cancel := withTimeout(cmd.Context(), f.timeout)
	defer cancel()
	last, seen, finished := "", false, false
	err := eachChange(ctx, place.stateDir(), nil, func() (bool, error) {
		p, err := f.progress(place.stateDir(), t, seen)
		if err != nil {
			return false, err
		}
		if p.Text != last {
			fmt.Fprintln(cmd.OutOrStdout(), p.Text)
		}
		if !seen && !p.Done {
			place.noteKeeper(cmd)
		}
		last, seen, finished = p.Text, true, p.Done || !f.watch
		return finished, nil
	})
	if err == nil && !finished && cmd.Context().Err() == nil {
		err = errors.New("timed out waiting for the condition")
	}
	return err
}

// progress looks at a workload once.
func (f *followFlags) progress(stateDir string, t target, seen bool) (rollout.Progress, error) {
	obj, err := readLive(stateDir, t)
	switch {
	case err != nil && seen && errors.Is(err, fs.ErrNotExist):
		return rollout.Progress{}, errors.New("object has been deleted")
	case err != nil:
		return rollout.Progress{}, absent(t, err)
	}
	if f.revision > 0 {
		history, err := readHistory(stateDir, obj)
		if err != nil {
			return rollout.Progress{}, err
		}
		if running := rollout.Running(obj, history); running != f.revision {
			return rollout.Progress{}, fmt.Errorf("desired revision (%d) is different from the running revision (%d)", f.revision, running)
		}
	}
	return rollout.Status(obj)
}

// withTimeout bounds a context; 0 does not.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
