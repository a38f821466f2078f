package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster/watch"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/notice"
	"github.com/toyproxy/toyproxy/podnet"
)

// waking is all that wakes the loop.
type waking struct {
	*daemon
	ctx     context.Context
	loop    *agent.Loop
	running sync.WaitGroup
	// source is the one in use, and endManifests ends the watch over its manifests;
	// both belong to the goroutine that reloads.
	source       *followed
	endManifests func()
}

// startWaking starts all that wakes the loop, in the namespace of the calling
// thread. The function that it returns ends it, and waits for that.
func (d *daemon) startWaking(ctx context.Context, loop *agent.Loop, src *followed) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &waking{daemon: d, ctx: ctx, loop: loop, source: src, endManifests: func() {}}
	stop = func() { cancel(); w.running.Wait() }
	live, err := d.livePaths()
	if err == nil {
		err = w.watchKernel()
	}
	if err != nil {
		stop()
		return nil, err
	}
	w.watchManifests()
	w.watch(ctx, live, true, func() {
		if !d.lost() { // else all Pods would be taken for deleted, and made without their ConfigMaps
			loop.Wake(agent.PodsChanged)
		}
	})
	reload := make(chan struct{}, 1)
	if d.opts.config != "" {
		w.watch(ctx, []string{d.opts.config}, false, func() {
			select {
			case reload <- struct{}{}:
			default: // it is asked for already
			}
		})
	}
	w.running.Go(func() { w.reloads(reload) })
	return stop, nil
}

// watchKernel opens the sockets on which the kernel tells of changes.
func (w *waking) watchKernel() error {
	network, err := podnet.Watch(w.ctx)
	if err != nil {
		return err
	}
	w.running.Go(func() {
		for range network {
			w.loop.Wake(agent.KernelChanged)
		}
	})
	rules, err := notice.Watch(w.ctx, func() { w.loop.Wake(agent.KernelChanged) })
	if errors.Is(err, dataplane.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	w.running.Go(func() { <-rules })
	return nil
}

// watchManifests watches the manifests of the source in use, and no others.
func (w *waking) watchManifests() {
	w.endManifests()
	ctx, cancel := context.WithCancel(w.ctx)
	w.endManifests = cancel
	w.watch(ctx, w.source.paths(), false, func() { w.loop.Wake(agent.ObjectsChanged) })
}

// watch watches files until the context ends.
func (w *waking) watch(ctx context.Context, paths []string, flat bool, wake func()) {
	w.running.Go(func() {
		watch.Watch(ctx, watch.Config{Paths: paths, Flat: flat, Wake: wake,
			Tell: func(err error) { w.log.Warn("files are followed by looking at them", "because", err.Error()) }})
	})
}

// livePaths are the directories of live objects that others write.
func (d *daemon) livePaths() ([]string, error) {
	var out []string
	for _, name := range []string{"pods", "deployments", "replicasets", "statefulsets", "daemonsets"} {
		path, err := d.sc.statePath(name)
		if err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

// reloads reads everything again for SIGHUP, and when the configuration changed.
func (w *waking) reloads(changed <-chan struct{}) {
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, unix.SIGHUP)
	defer signal.Stop(hangUp)
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-hangUp:
			w.reload("SIGHUP")
		case <-changed:
			w.reload("the configuration changed")
		}
	}
}
