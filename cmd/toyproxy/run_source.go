package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/pods"
)

// followed implements agent.Source by manifests that are read again and again. It
// belongs to the goroutine of the loop.
type followed struct {
	opts   *runOptions
	sc     scope
	source source
	vigil  *pods.Vigil
	// before is the one whose place it takes; it is asked for what it knows with the
	// first load.
	before *followed
	// kept are the objects of the last load, or at the start those that an earlier
	// process left; made tells which Pods of those were made here.
	kept cluster.Objects
	made map[types.NamespacedName]bool
	// files are those in which objects stood when they were good.
	files map[cluster.Ref]string
}

// newFollowed returns a source for some options. The objects that an earlier process
// left are read unless there is one before it.
func (d *daemon) newFollowed(o *runOptions, before *followed) (*followed, error) {
	f := &followed{opts: o, sc: d.sc, vigil: d.vigil, before: before, files: map[cluster.Ref]string{}}
	if before == nil {
		kept, err := readState(d.sc)
		if err != nil {
			d.log.Warn("state", "problem", err.Error())
			mender{d.log}.Observe(agent.Report{Err: err})
		}
		f.kept, f.made = kept, state.OpenLive(d.sc.stateDir).Made()
	}
	s, err := o.src.source(strings.NewReader(""), f.earlier)
	f.source = s
	return f, err
}

// earlier is a Service as it was loaded before.
func (f *followed) earlier(name types.NamespacedName) *corev1.Service {
	return serviceByName(f.kept.Services)(name)
}

// inherit takes over what the source before it knows.
func (f *followed) inherit() {
	if f.before == nil {
		return
	}
	f.before.inherit()
	f.kept, f.made, f.files, f.before = f.before.kept, f.before.made, f.before.files, nil
}

// Load reads all manifests. Objects that are wrong now are as they were when they
// were good.
func (f *followed) Load(ctx context.Context) (agent.Input, error) {
	f.inherit()
	f.source.options.Earlier = serviceByName(f.kept.Services)
	in, err := f.source.loadServed(ctx, f.sc.stateDir)
	if err != nil {
		return in, err
	}
	if err := errors.Join(refuseNothing(in, f.source), f.refuseAny(in)); err != nil {
		return in, err
	}
	files := map[cluster.Ref]string{}
	for ref := range in.Objects.Refs() {
		files[ref] = in.Locate(ref, "").File
	}
	in.Locate = f.lazily(ctx)
	in = agent.KeepGoodOf(in, f.kept, func(p *corev1.Pod) bool {
		return f.made[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
	}, func(ref cluster.Ref) string { return f.files[ref] })
	in = keepFrozen(in, f.kept)
	for ref := range in.Objects.Refs() {
		if files[ref] == "" {
			files[ref] = f.files[ref] // it is as it was there
		}
	}
	keepAges(in.Objects.Services, serviceByName(f.kept.Services))
	giveAges(in.Objects.Services, time.Now())
	f.kept, f.made, f.files = in.Objects, nil, files
	return in, nil
}

// refuseAny is the error of manifests of which one is wrong, for who wants all or
// nothing.
func (f *followed) refuseAny(in agent.Input) error {
	n := agent.CountErrors(in.Problems)
	if !f.opts.src.strict || n == 0 {
		return nil
	}
	first := agent.Desired{Problems: in.Problems}.Errors()[0]
	return fmt.Errorf("%s in the manifests, with --strict nothing of them is put in force: %s", count(n, "error"), first)
}

// giveAges gives Services that are new the time of their creation: they are younger
// than all others.
func giveAges(services []*corev1.Service, now time.Time) {
	now = now.Truncate(time.Second)
	for _, s := range services {
		if born := s.CreationTimestamp.Time; !now.After(born) {
			now = born.Add(time.Second)
		}
	}
	for _, s := range services {
		if s.CreationTimestamp.IsZero() {
			s.CreationTimestamp = metav1.NewTime(now)
		}
	}
}

// lazily locates objects by reading the manifests once more when that is asked for:
// where each field stands takes as much memory as all objects do.
func (f *followed) lazily(ctx context.Context) func(cluster.Ref, string) cluster.Position {
	locate := sync.OnceValue(func() func(cluster.Ref, string) cluster.Position {
		in, err := f.source.load(ctx)
		if err != nil {
			return func(cluster.Ref, string) cluster.Position { return cluster.Position{} }
		}
		return in.Locate
	})
	return func(ref cluster.Ref, field string) cluster.Position { return locate()(ref, field) }
}

// paths are the files and directories to watch.
func (f *followed) paths() []string {
	if f.source.options.FS != nil {
		return nil
	}
	return f.source.options.Paths
}

// Settle says which node it is.
func (f *followed) Settle(ctx context.Context, in agent.Input) (agent.Setting, error) {
	src := &f.opts.src
	if err := placeOnMembers(ctx, &in, src.node.value, f.sc); err != nil {
		return agent.Setting{}, err
	}
	node, err := src.agentNode(&in, f.sc.sight(fromKernel))
	if err != nil {
		return agent.Setting{}, err
	}
	in.Problems = append(in.Problems, src.doorProblems(node, in.Objects.Services)...)
	if f.sc.pod {
		in.Objects.Pods, err = livePods(f.sc, in.Objects.Pods)
		return agent.Setting{Input: in, Node: node}, err
	}
	runtime, err := newPods(src, f.sc, in.Objects, node)
	return agent.Setting{Input: in, Node: node, Pods: guarded{runtime, f.vigil}}, err
}

// guarded are Pods whose end is told at once.
type guarded struct {
	*pods.Runtime
	vigil *pods.Vigil
}

// Survey also sees to it that the vigil knows those that live.
func (g guarded) Survey(ctx context.Context) ([]pods.Seen, error) {
	seen, err := g.Runtime.Survey(ctx)
	return seen, errors.Join(err, g.vigil.Keep(seen))
}
