package pods

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// State is what there is of a Pod.
type State string

// The states of a Pod.
const (
	// Living: its pause process lives, in the namespace that is the Pod's.
	Living State = "living"
	// Unfit: it lives, but has to give way to another of its name.
	Unfit State = "unfit"
	// Unborn: it is written down, and nothing has been started yet, or a crash has
	// left it half made.
	Unborn State = "unborn"
	// Dead: its pause process has ended, and what it had is left over.
	Dead State = "dead"
)

// Seen is one Pod as it was seen at one moment.
type Seen struct {
	Name  types.NamespacedName
	State State
	// Pod is the object with the status it has now; nil when its file is lost.
	Pod *corev1.Pod
	// Reason says why it is unfit.
	Reason string

	live live
}

// Ending tells whether the Pod has been deleted, and still lives.
func (s Seen) Ending() bool { return s.Pod != nil && s.Pod.DeletionTimestamp != nil }

// Deadline is when a Pod that is ending is killed: a while after the end of its
// grace, which its own pause process sees to. See MarkDeleted.
func (s Seen) Deadline() time.Time { return s.Pod.DeletionTimestamp.Add(pauseGrace) }

// MarkDeleted marks a Pod as deleted at a time, as the API does: with the time at
// which its grace is over. It tells whether the Pod was not marked before.
func MarkDeleted(p *corev1.Pod, now time.Time) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	g := grace(p)
	seconds, at := int64(g/time.Second), metav1.NewTime(now.Add(g).Truncate(time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &seconds
	return true
}

// Survey returns what there is of the node's Pods, by namespace and name. Damaged
// state files are named in the error; the rest is good all the same.
func (r *Runtime) Survey(context.Context) ([]Seen, error) {
	obs, err := r.observe()
	var out []Seen
	for _, name := range obs.sorted() {
		l := obs.pods[name]
		s := Seen{Name: victim{name: name}.id(), Pod: l.pod, live: l}
		if l.pod != nil {
			s.Pod = l.current()
		}
		s.State, s.Reason = r.stateOf(l)
		out = append(out, s)
	}
	for _, name := range obs.networks(r) {
		if strings.Count(name, "/") == 1 {
			out = append(out, Seen{Name: victim{name: name}.id(), State: Dead})
		}
	}
	return out, err
}

// stateOf judges what there is of a Pod.
func (r *Runtime) stateOf(l live) (State, string) {
	switch {
	case l.held && l.pod == nil:
		return Unfit, "its state file is lost"
	case l.held && l.astray:
		return Unfit, "its pause process is not in the namespace of that name any more"
	case l.hasNet && !r.cfg.Net.Fits(l.net):
		return Unfit, "its addresses do not lie in the node's Pod ranges"
	case l.held:
		return Living, ""
	case l.reported || l.pod != nil && l.pod.DeletionTimestamp != nil:
		return Dead, ""
	}
	return Unborn, ""
}

// Task is something to do with a Pod, and why.
type Task struct {
	Name   types.NamespacedName
	Reason string
	// Seen is the Pod as it was seen; Pod as it is to be.
	Seen Seen
	Pod  *corev1.Pod
}

// Work is what has to be done for the wanted Pods to live.
type Work struct {
	// Make are Pods that are missing, or half made.
	Make []Task
	// Delete are Pods to be marked as deleted: they leave the rules first.
	Delete []Task
	// End are Pods to be told to end, once they have left the rules.
	End []Task
	// Bury are Pods that have ended and left something behind.
	Bury []Task
	// Relabel are Pods whose metadata is to be another.
	Relabel []Task
	// Problems tell why some cannot be made, or what of them is ignored.
	Problems []cluster.Problem
}

// Compare says what has to be done for the wanted Pods to live, and no other: a
// Pod that is to be replaced is deleted first, and made once it has ended. Wanted
// Pods have no status. Pure.
func Compare(seen []Seen, wanted []*corev1.Pod) Work {
	var w Work
	left := make(map[types.NamespacedName]Seen, len(seen))
	for _, s := range seen {
		left[s.Name] = s
	}
	for _, p := range wanted {
		id := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		problems := Check(p)
		w.Problems = append(w.Problems, problems...)
		s, there := left[id]
		delete(left, id)
		if slices.ContainsFunc(problems, func(p cluster.Problem) bool { return !p.Warning }) {
			continue // one that lives stays as it is
		}
		if !there {
			w.Make = append(w.Make, Task{Name: id, Reason: "missing", Pod: p})
			continue
		}
		w.compare(s, p)
	}
	for _, s := range seen {
		if _, unwanted := left[s.Name]; unwanted {
			w.end(s, "no longer wanted")
		}
	}
	return w
}

// compare decides about a wanted Pod of which there is something.
func (w *Work) compare(s Seen, want *corev1.Pod) {
	t := Task{Name: s.Name, Seen: s, Pod: want}
	switch {
	case s.Ending() || s.State == Dead:
		w.end(s, "")
	case s.State == Unfit:
		w.end(s, s.Reason)
	case !sameSpec(want, s.Pod):
		w.end(s, "its spec changed, and a Pod is never changed in place")
	case s.State == Unborn:
		t.Reason = "it was left half made"
		w.Make = append(w.Make, t)
	case !sameMeta(want, s.Pod):
		t.Reason = "its metadata changed"
		w.Relabel = append(w.Relabel, t)
	}
	if s.State == Living && !s.Ending() {
		w.Problems = append(w.Problems, failings(want, s.live.report)...)
	}
}

// end takes a Pod one step nearer to its end.
func (w *Work) end(s Seen, reason string) {
	t := Task{Name: s.Name, Reason: reason, Seen: s, Pod: s.Pod}
	switch {
	case s.State == Dead || s.State == Unborn:
		w.Bury = append(w.Bury, t)
	case s.Pod == nil || s.Ending():
		w.End = append(w.End, t)
	default:
		w.Delete = append(w.Delete, t)
	}
}

// String names the Pod and why.
func (t Task) String() string { return fmt.Sprintf("Pod %s: %s", t.Name, t.Reason) }
