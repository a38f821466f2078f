package main

import (
	"context"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster/watch"
	"github.com/toyproxy/toyproxy/podnet"
)

// startWaking starts all that wakes the loop, in the namespace of the calling
// thread. The function that it returns ends it, and waits for that.
func (d *daemon) startWaking(ctx context.Context, loop *agent.Loop, manifests []string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	stop = func() { cancel(); running.Wait() }
	defer func() {
		if err != nil {
			stop()
		}
	}()
	live, err := d.livePaths()
	if err != nil {
		return nil, err
	}
	network, err := podnet.Watch(ctx)
	if err != nil {
		return nil, err
	}
	running.Go(func() { d.watchFiles(ctx, manifests, false, func() { loop.Wake(agent.ObjectsChanged) }) })
	running.Go(func() { d.watchFiles(ctx, live, true, func() { loop.Wake(agent.PodsChanged) }) })
	running.Go(func() {
		for range network {
			loop.Wake(agent.KernelChanged)
		}
	})
	running.Go(func() { d.hangUps(ctx, loop) })
	return stop, nil
}

func (d *daemon) watchFiles(ctx context.Context, paths []string, flat bool, wake func()) {
	watch.Watch(ctx, watch.Config{Paths: paths, Flat: flat, Wake: wake,
		Tell: func(err error) { d.log.Warn("files are followed by looking at them", "because", err.Error()) }})
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

// hangUps wakes the loop for SIGHUP.
func (d *daemon) hangUps(ctx context.Context, loop *agent.Loop) {
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, unix.SIGHUP)
	defer signal.Stop(hangUp)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangUp:
			d.log.Info("reloading")
			loop.Wake(agent.Reloaded)
		}
	}
}
