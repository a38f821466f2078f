package controller

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// TestSevenIterations is the lesson: 0 to 3, steady, 3 to 5, two lost, 5 again, 5 to
// 2, steady.
func TestSevenIterations(t *testing.T) {
	w := newWorld(t)
	w.put(deploy("web", 3))
	expect := func(step string, created, deleted int) Result {
		t.Helper()
		res := w.pass()
		if c, d := did(res, Create), did(res, Delete); c != created || d != deleted {
			t.Fatalf("%s: %d created and %d deleted, want %d and %d", step, c, d, created, deleted)
		}
		return res
	}
	expect("1: nothing is there", 3, 0)
	w.settle()
	if res := expect("2: steady", 0, 0); !idle(res) {
		t.Errorf("the steady pass does something: %v", describe(res))
	}
	change(w, "web", scale(5))
	expect("3: scaled to 5", 2, 0)
	w.settle()
	oldest := slices.SortedFunc(slices.Values(w.living()), func(a, b *corev1.Pod) int { return born(a).Compare(born(b)) })
	w.lose(oldest[:2]...)
	before := podNames(w.pods())
	res := expect("4 and 5: two lost", 2, 0)
	for _, a := range res.Actions {
		if a.Op == Create && slices.Contains(before, a.Object.GetName()) {
			t.Errorf("the replacement has the name of another Pod: %s", a.Object.GetName())
		}
	}
	w.settle()
	byAge := slices.SortedFunc(slices.Values(w.living()), func(a, b *corev1.Pod) int { return born(b).Compare(born(a)) })
	change(w, "web", scale(2))
	res = expect("6: scaled to 2", 0, 3)
	var gone []string
	for _, a := range res.Actions {
		if _, isPod := a.Object.(*corev1.Pod); isPod {
			gone = append(gone, a.Object.GetName())
		}
	}
	if diff := cmp.Diff(podNames(byAge[:3]), gone); diff != "" {
		t.Errorf("not the newest first (-want +got):\n%s", diff)
	}
	w.settle()
	if res := expect("7: steady", 0, 0); !idle(res) {
		t.Errorf("the steady pass does something: %v", describe(res))
	}
}

// TestMaxActions: a limit of 2 closes a gap of 5 in three passes.
func TestMaxActions(t *testing.T) {
	w := newWorld(t)
	w.maxActions = 2
	w.put(deploy("web", 5))
	for i, want := range []struct {
		created int
		bounded bool
	}{{2, true}, {2, true}, {1, false}, {0, false}} {
		res := w.pass()
		if c := did(res, Create); c != want.created || res.Bounded != want.bounded {
			t.Errorf("pass %d: %d created, bounded %v, want %+v", i+1, c, res.Bounded, want)
		}
	}
}

// TestMaxActionsAreShared: an owner whose Pods die as they are made does not keep
// another from getting its own.
func TestMaxActionsAreShared(t *testing.T) {
	w := newWorld(t)
	w.maxActions = 1
	w.put(deploy("aaa", 1), deploy("zzz", 3))
	for range 8 {
		w.pass()
		for _, pod := range w.living() {
			if pod.Labels["app"] == "aaa" {
				w.lose(pod)
			}
		}
		w.step()
	}
	n := 0
	for _, pod := range w.living() {
		if pod.Labels["app"] == "zzz" {
			n++
		}
	}
	if n != 3 {
		t.Errorf("zzz has %d of 3 Pods after 8 passes of one action each", n)
	}
}

// TestTwoOwners: under churn no Pod of one Deployment is made or ended by the other,
// though both select the same labels.
func TestTwoOwners(t *testing.T) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(1, 2))
	same := func(d *appsv1.Deployment) {
		d.Spec.Selector, d.Spec.Template = selector("same"), template("same", "v1")
	}
	w.put(deploy("one", 4, same), deploy("two", 6, same))
	owners := map[string]string{}
	w.check = func(_ []*corev1.Pod, res Result) {
		for _, a := range res.Actions {
			pod, ok := a.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if a.Op == Create {
				owners[pod.Name] = a.Owner.Name
			}
			if a.Op == Update || owners[pod.Name] != a.Owner.Name {
				t.Fatalf("%s touches Pod %s of %s: %s %s", a.Owner, pod.Name, owners[pod.Name], a.Op, a.Reason)
			}
		}
	}
	for i := range 100 {
		switch i % 10 {
		case 3:
			change(w, "one", scale(1+rng.Int32N(8)))
		case 7:
			change(w, "two", scale(rng.Int32N(8)))
		}
		if living := w.living(); len(living) > 0 {
			w.lose(living[rng.IntN(len(living))])
		}
		w.pass()
		w.step()
	}
	change(w, "one", scale(4))
	change(w, "two", scale(6))
	w.settle()
	got := map[string]int{}
	for _, pod := range w.living() {
		got[owners[pod.Name]]++
	}
	if got["one"] != 4 || got["two"] != 6 {
		t.Errorf("at the end %v, want one: 4, two: 6", got)
	}
}

// TestRandomLoss: in 100 rounds of random loss the Deployment is below its desired
// number for one pass at most.
func TestRandomLoss(t *testing.T) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(3, 4))
	w.put(deploy("web", 10))
	w.settle()
	below, worst := 0, 0
	for range 100 {
		for _, pod := range w.living() {
			if rng.IntN(4) == 0 {
				w.lose(pod)
			}
		}
		if len(w.living()) < 10 {
			below++
		}
		worst = max(worst, below)
		w.pass()
		if len(w.living()) == 10 {
			below = 0
		}
		w.step()
	}
	t.Logf("worst number of passes below desired: %d", worst)
	if worst != 1 {
		t.Errorf("worst number of passes below desired: %d, want 1", worst)
	}
}

// TestNewNames: no name comes again in many losses, and each is the set's with an
// ending, a valid label.
func TestNewNames(t *testing.T) {
	w := newWorld(t)
	w.put(deploy("web", 5))
	seen := map[string]bool{}
	w.check = func(_ []*corev1.Pod, res Result) {
		for _, a := range res.Actions {
			if pod, ok := a.Object.(*corev1.Pod); ok && a.Op == Create {
				if seen[pod.Name] {
					t.Fatalf("name %s comes again", pod.Name)
				}
				seen[pod.Name] = true
			}
		}
	}
	for range 30 {
		w.pass()
		w.lose(w.living()...)
	}
	if len(seen) != 150 {
		t.Errorf("%d names, want 150", len(seen))
	}
	if len(all[*appsv1.ReplicaSet](w, cluster.ReplicaSet)) != 1 {
		t.Error("losses made more than one ReplicaSet")
	}
}
