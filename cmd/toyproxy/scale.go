package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/rollout"
)

func scaleCommand() *cobra.Command {
	var place placeFlags
	var replicas, current int
	cmd := &cobra.Command{
		Use:   "scale KIND/NAME... --replicas N",
		Short: "Set how many Pods a Deployment, StatefulSet or ReplicaSet has",
		Long: `Sets how many Pods a Deployment, StatefulSet or ReplicaSet has. It stays so until
the manifest says another number than before.`,
		Example: `  sudo toyproxy scale deploy/web --replicas 5
  sudo toyproxy scale deploy/web --current-replicas 5 --replicas 3`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, err := place.targets(scalableKinds(), args)
			if err != nil {
				return err
			}
			if replicas < 0 || replicas > math.MaxInt32 || current < -1 || current > math.MaxInt32 {
				return exit(exitUsage, errors.New("say how many Pods there are to be: --replicas N, 0 or more"))
			}
			return changeEach(cmd, &place, targets, func(_ target, obj metav1.Object) (string, error) {
				return "scaled", rollout.Scale(obj, int32(replicas), int32(current))
			})
		},
	}
	place.register(cmd)
	cmd.Flags().IntVar(&replicas, "replicas", -1, "how many Pods there are to be")
	cmd.Flags().IntVar(&current, "current-replicas", -1, "change it only when it is this number now")
	return cmd
}

// changeEach changes targets one by one, and prints what was done with each.
func changeEach(cmd *cobra.Command, place *placeFlags, targets []target, change func(target, metav1.Object) (did string, err error)) error {
	var errs []error
	done := 0
	for _, t := range targets {
		var did string
		err := changeWorkload(place.stateDir(), t, func(obj metav1.Object) (err error) {
			did, err = change(t, obj)
			if err != nil {
				err = fmt.Errorf("%s %q: %w", t.plural, t.Name, err)
			}
			return err
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done++
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", t, did)
	}
	if done > 0 {
		place.noteKeeper(cmd)
	}
	return errors.Join(errs...)
}
