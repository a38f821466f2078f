package pods

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/toyproxy/toyproxy/podnet"
)

// live is what there is of one Pod.
type live struct {
	// pod is the object as kept, nil when its file is lost.
	pod *corev1.Pod
	// report is the last one; reported tells whether there is one.
	report   report
	reported bool
	// pause is the process that holds it; held tells whether it is alive.
	pause process
	held  bool
	// astray: the pause process sits in another namespace than that of the name.
	astray bool
	// net is its network, which may be there without anything else.
	net    podnet.Network
	hasNet bool
}

// current is the Pod with the status it has now.
func (l live) current() *corev1.Pod {
	switch {
	case !l.held && l.reported:
		return gone(l.pod)
	case !l.reported:
		return l.pod
	}
	p := l.pod.DeepCopy()
	setStatus(p, l.report)
	return p
}

// starting: its pause process lives, and has yet to say how its containers are. A
// report that was lost since does not come again.
func (l live) starting() bool {
	if !l.reported {
		return l.held && l.pod.Status.Phase == corev1.PodPending
	}
	return l.held && len(unsettled(l.report)) > 0
}

// settled is the Pod as it is once what starts has started.
func (l live) settled() *corev1.Pod {
	if !l.starting() {
		return l.current()
	}
	p := l.pod.DeepCopy()
	setContainers(p, started(l.pod, l.report.Containers))
	return p
}

// observation is what there is on the node, by NAMESPACE/NAME.
type observation struct {
	pods map[string]live
}

func (o observation) sorted() []string { return slices.Sorted(maps.Keys(o.pods)) }

// observe reads the state files, the processes and the networks. Damaged files
// are named in the error beside a whole observation.
func (r *Runtime) observe() (observation, error) {
	o := observation{map[string]live{}}
	kept, keptErr := r.state.List()
	found, err := pauses(r.cfg.StateDir)
	if err != nil {
		return o, errors.Join(keptErr, err)
	}
	networks, err := r.cfg.Net.Networks()
	if err != nil {
		return o, errors.Join(keptErr, err)
	}
	for _, p := range kept {
		o.pods[key(p)] = live{pod: p}
	}
	for name := range found {
		if _, ok := o.pods[name]; !ok && strings.Count(name, "/") == 1 {
			o.pods[name] = live{}
		}
	}
	byName := make(map[string]podnet.Network, len(networks))
	for _, net := range networks {
		byName[net.Name] = net
	}
	errs := []error{keptErr}
	for name, l := range o.pods {
		errs = append(errs, r.look(&l, name, found[name]))
		l.net, l.hasNet = byName[networkOf(name)]
		o.pods[name] = l
		if l.pod == nil && !l.held {
			delete(o.pods, name) // somebody else's process
		}
	}
	return o, errors.Join(errs...)
}

// sighting is a process that says it holds a Pod, as it was seen.
type sighting struct {
	process
	netns uint64
	alive bool
}

// look finds the pause process of a Pod. It is ours when it reported itself, or
// when it sits in the namespace with the Pod's name, which is ours: a toyproxy in
// a container may use the same names and directories for others. Of several the
// oldest is it: what it starts bears its command line for a moment.
func (r *Runtime) look(l *live, name string, found []process) (err error) {
	namespace, pod, _ := strings.Cut(name, "/")
	home := r.home(l.pod, name)
	seen := make([]sighting, len(found))
	for i, p := range found {
		seen[i] = sighting{p, netnsOf(p.Pid), p.alive()}
	}
	// After that: what a process reported before its end is read, so that one that has
	// ended by now is not taken for one that never began.
	l.report, l.reported, err = readReport(reportPath(r.cfg.StateDir, namespace, pod))
	slices.SortFunc(seen, func(a, b sighting) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Pid, b.Pid)) })
	for _, s := range seen {
		told := l.reported && s.process == l.report.process
		if told || !l.held && s.netns != 0 && s.netns == home {
			l.pause, l.held, l.astray = s.process, s.alive, s.netns != home
		}
		if told {
			break
		}
	}
	return err
}

// networkOf is NetworkName for NAMESPACE/NAME.
func networkOf(name string) string {
	namespace, pod, _ := strings.Cut(name, "/")
	return NetworkName(namespace, pod)
}

// action is what becomes of a wanted Pod.
type action uint8

const (
	keep action = iota
	// relabel keeps it and writes its metadata anew.
	relabel
	// create makes it; also finishes what a crash left half made.
	create
	// replace ends it and makes another with a new address.
	replace
)

// decide compares a wanted Pod with what there is. Pure.
func decide(want *corev1.Pod, l live, fits bool) (action, string) {
	switch {
	case l.pod == nil && l.held:
		return replace, "its state file is lost"
	case l.pod == nil:
		return create, "missing"
	case l.pod.DeletionTimestamp != nil:
		return replace, "it was deleted"
	case !sameSpec(want, l.pod):
		return replace, "its spec changed, and a Pod is never changed in place"
	case l.held && l.astray:
		return replace, "its pause process is not in the namespace of that name any more"
	case l.hasNet && !fits:
		return replace, "its addresses do not lie in the node's Pod ranges"
	case !l.held && l.reported:
		return replace, "its pause process has died"
	case !l.held:
		return create, "it was left half made"
	case !sameMeta(want, l.pod):
		return relabel, "its metadata changed"
	}
	return keep, ""
}

// sameSpec compares specs as they are kept, in JSON: what decodes differently
// but means the same does not count.
func sameSpec(a, b *corev1.Pod) bool {
	x, err1 := json.Marshal(a.Spec)
	y, err2 := json.Marshal(b.Spec)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

func sameMeta(a, b *corev1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}
