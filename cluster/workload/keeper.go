package workload

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/apply"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/controller"
)

// Keeper keeps the workloads of one node. It belongs to one goroutine.
type Keeper struct {
	files  state.Workloads
	events state.Events
	live   state.Live
	// dry: nothing is written; what would be is only shown.
	dry bool
	// configs are the ConfigMaps and Secrets that were written last.
	configs map[cluster.Ref]metav1.Object
}

// Open returns the keeper of the workloads below a state directory.
func Open(stateDir string) *Keeper {
	return &Keeper{files: state.OpenWorkloads(stateDir), events: state.OpenEvents(stateDir), live: state.OpenLive(stateDir),
		configs: map[cluster.Ref]metav1.Object{}}
}

// OpenDry returns one that writes nothing.
func OpenDry(stateDir string) *Keeper {
	k := Open(stateDir)
	k.dry = true
	return k
}

// Merge brings the workloads of manifests onto the live ones, removes those that no
// manifest wants any more, and returns all that there are then. What cannot be
// changed stays as it is, and is a problem. The error names damaged files; the
// result is good all the same.
func (k *Keeper) Merge(_ context.Context, m cluster.Objects) (controller.Input, []cluster.Problem, error) {
	var in controller.Input
	var sets []*appsv1.ReplicaSet
	g := merger{keeper: k, stamp: apply.Stamp{Now: time.Now(), UID: newUID}}
	in.Deployments = merge(&g, cluster.Deployment, k.files.Deployments, m.Deployments)
	sets = merge(&g, cluster.ReplicaSet, k.files.ReplicaSets, m.ReplicaSets)
	in.StatefulSets = merge(&g, cluster.StatefulSet, k.files.StatefulSets, m.StatefulSets)
	in.DaemonSets = merge(&g, cluster.DaemonSet, k.files.DaemonSets, m.DaemonSets)
	for _, rs := range sets {
		if metav1.GetControllerOfNoCopy(rs) == nil {
			in.ReplicaSets = append(in.ReplicaSets, rs)
		} else {
			in.OwnedSets = append(in.OwnedSets, rs)
		}
	}
	var err error
	in.Revisions, err = k.files.Revisions.List()
	g.fail(err)
	g.fail(k.writeConfigs(m, g.stamp.Now))
	return in, g.problems, errors.Join(g.errs...)
}

// merger is one Merge under way.
type merger struct {
	keeper   *Keeper
	stamp    apply.Stamp
	problems []cluster.Problem
	errs     []error
}

// fail notes an error; what is damaged is written anew, and no reason to stop.
func (g *merger) fail(err error) {
	var damaged *state.CorruptError
	if err != nil && !errors.As(err, &damaged) {
		g.errs = append(g.errs, err)
	}
}

// merge brings the manifests of one kind onto the live objects.
func merge[T apply.Workload[T]](g *merger, kind cluster.Kind, dir state.Dir[T], manifests []T) []T {
	live, err := dir.List()
	g.fail(err)
	var out []T
	for _, m := range manifests {
		i := slices.IndexFunc(live, func(l T) bool { return l.GetName() == m.GetName() && l.GetNamespace() == m.GetNamespace() })
		var old T
		if i >= 0 {
			old = live[i]
			live = slices.Delete(live, i, i+1)
		}
		if next, ok := one(g, dir, m, old); ok {
			out = append(out, next)
		}
	}
	for _, l := range live {
		// What a controller owns is that controller's business.
		if owner := metav1.GetControllerOfNoCopy(l); owner != nil {
			out = append(out, l)
			continue
		}
		if !g.keeper.dry {
			g.fail(dir.Delete(nameOf(l)))
		}
	}
	return out
}

// one brings one manifest onto its live object, and returns what lives then.
func one[T apply.Workload[T]](g *merger, dir state.Dir[T], m, old T) (T, bool) {
	var none T
	next, changed, err := apply.Apply(old, old != none, m, g.stamp)
	if err == nil && changed && !g.keeper.dry {
		// Again, with what a command has made of it meanwhile.
		failed := dir.Update(nameOf(m), func(now T, exists bool) (T, bool) {
			next, changed, err = apply.Apply(now, exists, m, g.stamp)
			return next, err == nil && changed
		})
		g.fail(failed)
	}
	var refused *apply.RefusedError
	if errors.As(err, &refused) {
		g.problems = append(g.problems, refused.Problems()...)
		return old, old != none
	}
	if err != nil {
		g.fail(err)
		return old, old != none
	}
	return next, true
}

func nameOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// writeConfigs writes ConfigMaps and Secrets that have changed, before any Pod is
// made that mounts them.
func (k *Keeper) writeConfigs(m cluster.Objects, now time.Time) error {
	if k.dry {
		return nil
	}
	next := map[cluster.Ref]metav1.Object{}
	for _, c := range m.ConfigMaps {
		next[cluster.MakeRef(cluster.ConfigMap, c.Namespace, c.Name)] = c
	}
	for _, s := range m.Secrets {
		next[cluster.MakeRef(cluster.Secret, s.Namespace, s.Name)] = s
	}
	var events []cluster.Event
	for ref, obj := range next {
		if k.configs[ref] != obj {
			events = append(events, cluster.Event{Object: ref, New: obj})
		}
	}
	for ref, obj := range k.configs {
		if next[ref] == nil {
			events = append(events, cluster.Event{Object: ref, Old: obj})
		}
	}
	if err := k.live.WriteEvents(events, func(*corev1.Pod) bool { return false }, now.Truncate(time.Second)); err != nil {
		return err
	}
	k.configs = next
	return nil
}

// newUID returns a random UUID.
func newUID() types.UID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}
