package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/cluster/watch"
)

// look is what get and describe see of a node.
type look struct {
	agent.Desired
	// live: these are the objects that live here, not those of manifests.
	live      bool
	revisions []*appsv1.ControllerRevision
	// events are what happened to the objects, in their order.
	events []*corev1.Event
	// noted is what is wrong with the input: what a pass noted, or with -f what is
	// wrong with those manifests.
	noted []cluster.Problem
}

// readLook resolves the objects that a command shows: the live ones, or with -f
// those of the manifests.
func readLook(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags) (look, error) {
	if os.Geteuid() == 0 {
		if err := enterNamespace(nf.netns.value); err != nil {
			return look{}, err
		}
	}
	sc, live := nf.scope(), len(src.files) == 0
	d, err := desired(cmd.Context(), cmd.InOrStdin(), src, sc, live)
	if err != nil || !live {
		return look{Desired: d, noted: d.Problems}, err
	}
	l := look{Desired: d, live: true}
	var errs [3]error
	l.revisions, errs[0] = state.OpenWorkloads(sc.stateDir).Revisions.List()
	l.events, errs[1] = state.OpenEvents(sc.stateDir).List(time.Now())
	l.noted, errs[2] = state.ReadProblems(sc.stateDir)
	return l, skipDamaged(errors.Join(errs[:]...))
}

// changeDirs are the directories in which a node's live objects change.
func changeDirs(stateDir string) []string {
	dirs := []string{stateDir}
	for _, name := range slices.Concat(state.WorkloadDirs(), state.DoorDirs(), []string{"services", "endpointslices", "nodes", "namespaces", "pods", state.RemotePods}) {
		dirs = append(dirs, filepath.Join(stateDir, name))
	}
	return dirs
}

// lookAgain is how long nothing has to be told before a look is taken all the same:
// a Pod that was killed as a whole writes no file about it.
const lookAgain = 2 * time.Second

// eachChange calls a function now, and each time that something below a state
// directory or in manifests has changed, until it says that it is done, fails, or
// the context ends.
func eachChange(ctx context.Context, stateDir string, manifests []string, see func() (done bool, err error)) error {
	if done, err := see(); done || err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	ended := make(chan struct{}, 2)
	for _, cfg := range []watch.Config{{Paths: changeDirs(stateDir), Flat: true, Wake: wake}, {Paths: files(manifests), Wake: wake}} {
		go func() {
			watch.Watch(ctx, cfg)
			ended <- struct{}{}
		}()
	}
	defer func() {
		cancel()
		<-ended
		<-ended
	}()
	for {
		if done, err := see(); done || err != nil {
			return err
		}
		timer := time.NewTimer(lookAgain)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// files leaves out standard input, which does not change.
func files(manifests []string) []string {
	return slices.DeleteFunc(slices.Clone(manifests), func(p string) bool { return p == "-" })
}

// mayNotRead makes an error say who may, when that is what is wrong.
func mayNotRead(what string, err error) error {
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return exit(exitNeedsRoot, fmt.Errorf("%s needs root here (%w): run it with sudo", what, err))
	}
	return err
}
