package pods

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// survey fails the test when there is anything to say.
func (l *lab) survey() []Seen {
	l.t.Helper()
	seen, err := l.Survey(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return seen
}

// step does what a pass of an agent does about Pods, once.
func (l *lab) step(wanted ...*corev1.Pod) Work {
	l.t.Helper()
	ctx := l.t.Context()
	w := Compare(l.survey(), wanted)
	var now []*corev1.Pod
	for _, task := range w.Make {
		now = append(now, task.Pod)
	}
	for name, err := range l.Make(ctx, now) {
		l.t.Logf("%s: %v", name, err)
	}
	for _, task := range w.Delete {
		if err := l.Change(ctx, task.Name, func(p *corev1.Pod) bool { return MarkDeleted(p, time.Now()) }); err != nil {
			l.t.Fatal(err)
		}
	}
	pick := func(tasks []Task) (out []Seen) {
		for _, task := range tasks {
			out = append(out, task.Seen)
		}
		return out
	}
	if err := l.End(ctx, pick(w.End)); err != nil {
		l.t.Fatal(err)
	}
	if err := l.Bury(ctx, pick(w.Bury)); err != nil {
		l.t.Fatal(err)
	}
	return w
}

// TestNameIsGivenAgain proves that a Pod whose namespace lost its name, by `ip netns
// del` or by an unmount that left the file, keeps the namespace, its address and
// its process.
func TestNameIsGivenAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sync(web("web-1"))
	pod, before := l.survey()[0].Pod, l.pause("web-1")
	path := l.net.Path("web-1")
	home := inodeOf(path)
	for what, take := range map[string]func() error{
		"ip netns del": func() error { return errors.Join(unix.Unmount(path, unix.MNT_DETACH), os.Remove(path)) },
		"umount":       func() error { return unix.Unmount(path, unix.MNT_DETACH) },
	} {
		if err := take(); err != nil {
			t.Fatal(err)
		}
		plan, err := l.Repair(t.Context(), []*corev1.Pod{pod})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if c := plan.Changes(); len(c) != 1 || c[0].Object != "network namespace web-1" {
			t.Errorf("%s: changes %v", what, c)
		}
		if err := plan.Apply(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if inodeOf(path) != home {
			t.Errorf("%s: the name means another namespace than before", what)
		}
		if again, err := l.Repair(t.Context(), []*corev1.Pod{pod}); err != nil || len(again.Changes()) > 0 {
			t.Errorf("%s: a second look: %v, %v", what, again.Changes(), err)
		}
	}
	if s := l.survey()[0]; s.State != Living || l.pause("web-1") != before {
		t.Errorf("the Pod is %s: %s", s.State, s.Reason)
	}
}

// Steps lead from nothing to Pods that are ready, and back to nothing; no step waits
// for a container to start or to end.
func TestSteps(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	stubborn := program("stubborn", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
	stubborn.Spec.TerminationGracePeriodSeconds = new(int64(2))
	slow := web("slow")
	slow.Spec.Containers[0].Command = []string{"sh", "-c", "sleep 60; exec sleep 1000"}
	wanted := []*corev1.Pod{web("web-1"), stubborn, slow}
	began := time.Now()
	if w := l.step(wanted...); len(w.Make) != 3 || time.Since(began) > 30*time.Second {
		t.Errorf("%d to make, in %s", len(w.Make), time.Since(began))
	}
	poll(t, "web-1 is ready", func() bool {
		return slices.ContainsFunc(l.survey(), func(s Seen) bool { return s.Name.Name == "web-1" && s.State == Living && ready(s.Pod) })
	})
	if w := l.step(wanted...); len(w.Make)+len(w.Delete)+len(w.End)+len(w.Bury)+len(w.Relabel) > 0 {
		t.Errorf("a second step has something to do: %+v", w)
	}
	if w := l.step(); len(w.Delete) != 3 || len(w.End) > 0 {
		t.Errorf("not wanted any more: %+v", w)
	}
	for _, s := range l.survey() {
		if !s.Ending() || s.State != Living {
			t.Errorf("%s: %s, ending %t: nobody was told to end", s.Name, s.State, s.Ending())
		}
	}
	began = time.Now()
	l.step()
	if took := time.Since(began); took > time.Second {
		t.Errorf("telling them to end took %s", took)
	}
	poll(t, "all are gone", func() bool { l.step(); return len(l.survey()) == 0 })
	nets, err := l.net.Networks()
	if left, _ := os.ReadDir(filepath.Join(l.dir, "netns")); err != nil || len(left)+len(nets) > 0 {
		t.Errorf("left: %v, leases %v, %v", left, nets, err)
	}
}

// What a crash or a kill leaves half made or half ended is finished by the next steps.
func TestStepsFinishWhatIsHalfDone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one, two := web("web-1"), web("web-2")
	l.step(one, two)
	poll(t, "both report", func() bool {
		return !slices.ContainsFunc(l.survey(), func(s Seen) bool { return s.Pod == nil || !ready(s.Pod) })
	})
	before := l.pause("web-1")
	if err := before.signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll(t, "web-1 is dead", func() bool { return l.survey()[0].State == Dead })
	poll(t, "web-1 lives again", func() bool {
		l.step(one, two)
		s := l.survey()
		return len(s) == 2 && s[0].State == Living && ready(s[0].Pod)
	})
	if after := l.pause("web-1"); after == before {
		t.Error("the same process")
	}
	// Written down, and nothing else: made with the next step.
	if err := l.savePending(program("later")); err != nil {
		t.Fatal(err)
	}
	if w := l.step(one, two, program("later")); len(w.Make) != 1 || !strings.Contains(w.Make[0].Reason, "half made") {
		t.Errorf("what is written down only: %+v", w)
	}
	// A Pod whose file is lost is not known to the rules: it is told to end at once.
	if err := l.state.Delete(types.NamespacedName{Namespace: "default", Name: "web-2"}); err != nil {
		t.Fatal(err)
	}
	if w := l.step(one, two, program("later")); len(w.End) != 1 || w.End[0].Name.Name != "web-2" {
		t.Errorf("a lost file: %+v", w)
	}
}

// Where the addresses run out the next Pod is not made, and nothing of it stays but
// that it is wanted; it is made when an address is free.
func TestStepsWithoutAddress(t *testing.T) {
	t.Parallel()
	l := newLab(t, "10.244.0.0/30")
	one, two := web("web-1"), web("web-2")
	l.step(one)
	if w := l.step(one, two); len(w.Make) != 1 {
		t.Fatalf("%+v", w)
	}
	nets, err := l.net.Networks()
	left, _ := os.ReadDir(filepath.Join(l.dir, "netns"))
	if err != nil || len(nets) != 1 || len(left) != 1 {
		t.Errorf("leases %v, namespaces %v, %v", nets, left, err)
	}
	poll(t, "the second is ready once the first is gone", func() bool {
		l.step(two)
		return slices.ContainsFunc(l.survey(), func(s Seen) bool { return s.Name.Name == "web-2" && s.State == Living && ready(s.Pod) })
	})
}

func TestCompare(t *testing.T) {
	other, relabelled, ending, deleted := web("p"), web("p"), web("p"), web("p")
	other.Spec.Containers[0].Image = "web:2"
	relabelled.Labels = map[string]string{"app": "other"}
	now := metav1.Now()
	ending.DeletionTimestamp, deleted.DeletionTimestamp = &now, &now
	name := types.NamespacedName{Namespace: "default", Name: "p"}
	for _, tc := range []struct {
		name   string
		seen   []Seen
		wanted []*corev1.Pod
		want   string
	}{
		{"missing", nil, []*corev1.Pod{web("p")}, "make"},
		{"as it is to be", []Seen{{State: Living, Pod: web("p")}}, []*corev1.Pod{web("p")}, ""},
		{"another spec", []Seen{{State: Living, Pod: other}}, []*corev1.Pod{web("p")}, "delete"},
		{"other labels", []Seen{{State: Living, Pod: relabelled}}, []*corev1.Pod{web("p")}, "relabel"},
		{"unfit", []Seen{{State: Unfit, Pod: web("p")}}, []*corev1.Pod{web("p")}, "delete"},
		{"half made", []Seen{{State: Unborn, Pod: web("p")}}, []*corev1.Pod{web("p")}, "make"},
		{"half made, of another spec", []Seen{{State: Unborn, Pod: other}}, []*corev1.Pod{web("p")}, "bury"},
		{"dead", []Seen{{State: Dead, Pod: web("p")}}, []*corev1.Pod{web("p")}, "bury"},
		{"ending, and wanted again", []Seen{{State: Living, Pod: ending}}, []*corev1.Pod{web("p")}, "end"},
		{"file lost", []Seen{{State: Unfit}}, []*corev1.Pod{web("p")}, "end"},
		{"not wanted", []Seen{{State: Living, Pod: web("p")}}, nil, "delete"},
		{"not wanted, ending", []Seen{{State: Living, Pod: ending}}, nil, "end"},
		{"not wanted, ended", []Seen{{State: Dead, Pod: deleted}}, nil, "bury"},
		{"only a network", []Seen{{State: Dead}}, nil, "bury"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i := range tc.seen {
				tc.seen[i].Name = name
			}
			w := Compare(tc.seen, tc.wanted)
			var got []string
			for what, tasks := range map[string][]Task{"make": w.Make, "delete": w.Delete, "end": w.End, "bury": w.Bury, "relabel": w.Relabel} {
				for range tasks {
					got = append(got, what)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
