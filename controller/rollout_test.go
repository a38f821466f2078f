package controller

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/cluster"
)

func share(s string) *intstr.IntOrString { v := intstr.Parse(s); return &v }

func rolling(surge, down string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: share(surge), MaxUnavailable: share(down)},
		}
	}
}

// TestBounds: a surge is rounded up, what may be unavailable is rounded down, and
// when both are none, one may be unavailable.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		replicas    int32
		surge, down string
		want        bounds
	}{
		{1, "25%", "25%", bounds{1, 1, 0}},
		{2, "25%", "25%", bounds{2, 1, 0}},
		{3, "25%", "25%", bounds{3, 1, 0}},
		{4, "25%", "25%", bounds{4, 1, 1}},
		{5, "25%", "25%", bounds{5, 2, 1}},
		{6, "25%", "25%", bounds{6, 2, 1}},
		{8, "25%", "25%", bounds{8, 2, 2}},
		{10, "25%", "25%", bounds{10, 3, 2}},
		{10, "30%", "1", bounds{10, 3, 1}},
		{1, "0", "1%", bounds{1, 0, 1}},
		{2, "0", "1%", bounds{2, 0, 1}},
		{5, "0", "1%", bounds{5, 0, 1}},
		{6, "0", "1%", bounds{6, 0, 1}},
		{10, "0", "1%", bounds{10, 0, 1}},
		{10, "0%", "0%", bounds{10, 0, 1}},
		{10, "0", "0", bounds{10, 0, 1}},
		{3, "1", "0", bounds{3, 1, 0}},
		{3, "0", "5", bounds{3, 0, 3}},
		{3, "100%", "100%", bounds{3, 3, 3}},
		{1, "1%", "99%", bounds{1, 1, 0}},
		{0, "25%", "25%", bounds{0, 0, 0}},
		{0, "2", "2", bounds{0, 2, 0}},
		{math.MaxInt32, "25%", "25%", bounds{math.MaxInt32, 0, math.MaxInt32 / 4}},
		{4, "lots", "25%", bounds{4, 1, 1}},
	} {
		p := newPass(Input{})
		if got := p.boundsOf(deploy("web", c.replicas, rolling(c.surge, c.down))); got != c.want {
			t.Errorf("%d replicas, surge %s, unavailable %s: %+v, want %+v", c.replicas, c.surge, c.down, got, c.want)
		}
		if refused := len(p.res.Problems) > 0; refused != (c.surge == "lots") {
			t.Errorf("surge %q: problems %v", c.surge, p.res.Problems)
		}
	}
}

func TestBoundsWithoutStrategy(t *testing.T) {
	p := newPass(Input{})
	if got, want := p.boundsOf(deploy("web", 10)), (bounds{10, 3, 2}); got != want {
		t.Errorf("no strategy: %+v, want %+v", got, want)
	}
	recreate := func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }
	if got, want := p.boundsOf(deploy("web", 10, recreate)), (bounds{10, 0, 0}); got != want {
		t.Errorf("Recreate: %+v, want %+v", got, want)
	}
}

// serving counts available living Pods.
func serving(pods []*corev1.Pod) int32 {
	n := int32(0)
	for _, p := range pods {
		if ready(p) {
			n++
		}
	}
	return n
}

// keepBounds makes every pass of the world check the promise of a rolling update:
// what the pass does takes no serving Pod below desired - maxUnavailable, and makes
// no more than desired + maxSurge.
func (w *world) keepBounds(name string) {
	w.check = func(before []*corev1.Pod, res Result) {
		w.t.Helper()
		b := newPass(Input{}).boundsOf(w.deployment(name))
		after := w.living()
		if floor := min(b.want-b.down, serving(before)); serving(after) < floor {
			w.t.Fatalf("%d serve after the pass, want at least %d; %v", serving(after), floor, describe(res))
		}
		if most := max(b.want+b.surge, int32(len(before))); int32(len(after)) > most {
			w.t.Fatalf("%d Pods after the pass, want at most %d; %v", len(after), most, describe(res))
		}
	}
}

// TestRollingUpdate: many sizes and bounds, and each ends with Pods of the new
// version only.
func TestRollingUpdate(t *testing.T) {
	for _, replicas := range []int32{0, 1, 2, 5, 6, 10} {
		for _, share := range [][2]string{{"25%", "25%"}, {"0", "1%"}, {"1", "0"}, {"0", "0"}, {"100%", "0"}, {"0", "100%"}, {"30%", "2"}} {
			t.Run(fmt.Sprintf("%d replicas, surge %s, unavailable %s", replicas, share[0], share[1]), func(t *testing.T) {
				w := newWorld(t)
				w.put(deploy("web", replicas, rolling(share[0], share[1])))
				w.settle()
				w.keepBounds("web")
				change(w, "web", update("v2"))
				w.settle()
				want := map[string]int{}
				if replicas > 0 {
					want["v2"] = int(replicas)
				}
				if diff := cmp.Diff(want, versions(w.living())); diff != "" {
					t.Errorf("versions at the end (-want +got):\n%s", diff)
				}
				if s := w.deployment("web").Status; s.UpdatedReplicas != replicas || s.AvailableReplicas != replicas || s.UnavailableReplicas != 0 {
					t.Errorf("status at the end: %+v", s)
				}
			})
		}
	}
}

// TestRolloutStandsStill when new Pods do not become ready: the old ones go on
// serving; a corrected template gets through.
func TestRolloutStandsStill(t *testing.T) {
	w := newWorld(t)
	w.broken = func(p *corev1.Pod) bool { return versionOf(p) == "v2" }
	w.put(deploy("web", 10, rolling("25%", "25%")))
	w.settle()
	w.keepBounds("web")
	change(w, "web", update("v2"))
	w.settle()
	// 10 + 3 in all, 8 of them serving.
	if diff := cmp.Diff(map[string]int{"v1": 8, "v2": 5}, versions(w.living())); diff != "" {
		t.Errorf("versions while it stands still (-want +got):\n%s", diff)
	}
	w.now = w.now.Add(10 * time.Minute)
	w.settle()
	c := w.progress("web")
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != "ProgressDeadlineExceeded" {
		t.Errorf("condition Progressing after the deadline: %+v", c)
	}
	change(w, "web", update("v3"))
	w.settle()
	if diff := cmp.Diff(map[string]int{"v3": 10}, versions(w.living())); diff != "" {
		t.Errorf("versions at the end (-want +got):\n%s", diff)
	}
	if c := w.progress("web"); c == nil || c.Status != corev1.ConditionTrue || c.Reason != "NewReplicaSetAvailable" {
		t.Errorf("condition Progressing at the end: %+v", c)
	}
}

func (w *world) progress(name string) *appsv1.DeploymentCondition {
	for _, c := range w.deployment(name).Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return &c
		}
	}
	return nil
}

// TestDeadlineIsAnnounced: Again tells when the deadline is over, and a pass at that
// very time notices.
func TestDeadlineIsAnnounced(t *testing.T) {
	w := newWorld(t)
	w.broken = func(*corev1.Pod) bool { return true }
	w.put(deploy("web", 2, func(d *appsv1.Deployment) { n := int32(30); d.Spec.ProgressDeadlineSeconds = &n }))
	w.settle()
	res := w.pass()
	if ahead := res.Again.Sub(w.now); ahead <= 0 || ahead > 30*time.Second {
		t.Fatalf("to be looked at again in %v", ahead)
	}
	w.now = res.Again
	w.pass()
	if c := w.progress("web"); c == nil || c.Reason != "ProgressDeadlineExceeded" {
		t.Errorf("condition Progressing at the deadline: %+v", c)
	}
	if res := w.pass(); !res.Again.IsZero() {
		t.Errorf("to be looked at again at %v though the deadline is over", res.Again)
	}
}

// TestMinReadySeconds: a Pod counts once it has been ready for so long, and Again
// tells when.
func TestMinReadySeconds(t *testing.T) {
	w := newWorld(t)
	w.put(deploy("web", 2, rolling("1", "0"), func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 20 }))
	w.pass()
	w.step()
	res := w.pass()
	if s := w.deployment("web").Status; s.ReadyReplicas != 2 || s.AvailableReplicas != 0 {
		t.Errorf("ready %d, available %d at first, want 2 and 0", s.ReadyReplicas, s.AvailableReplicas)
	}
	readyAt := readySince(w.living()[0])
	if got := res.Again.Sub(readyAt); got != 20*time.Second {
		t.Errorf("to be looked at again %v after the Pod was ready, want 20 s", got)
	}
	w.now = res.Again
	w.pass()
	if s := w.deployment("web").Status; s.AvailableReplicas != 2 {
		t.Errorf("available %d after 20 s, want 2", s.AvailableReplicas)
	}
	change(w, "web", update("v2"))
	started := w.now
	for n := 0; versions(w.pods())["v1"] > 0 && n < 100; n++ {
		w.pass()
		w.step()
	}
	if took := w.now.Sub(started); took < 40*time.Second {
		t.Errorf("two Pods one after the other took %v, want 40 s at least", took)
	}
}

// TestRecreate: no Pod of the new version before the last of the old is gone.
func TestRecreate(t *testing.T) {
	w := newWorld(t)
	w.goneAfter = 3
	w.put(deploy("web", 4, func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }))
	w.settle()
	w.check = func(_ []*corev1.Pod, res Result) {
		if v := versions(w.pods()); v["v1"] > 0 && v["v2"] > 0 {
			t.Fatalf("both versions at once: %v", v)
		}
	}
	change(w, "web", update("v2"))
	w.settle()
	if diff := cmp.Diff(map[string]int{"v2": 4}, versions(w.living())); diff != "" {
		t.Errorf("versions at the end (-want +got):\n%s", diff)
	}
}

// TestRandomRollouts: rollouts, scales, pauses, losses and bounds on actions in any
// order: the promise holds in every pass, and the end is what was wanted last.
func TestRandomRollouts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shares := rapid.SampledFrom([]string{"0", "1", "3", "25%", "50%", "100%"})
		w := newWorld(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		w.maxActions = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "max actions")
		w.put(deploy("web", rapid.Int32Range(0, 12).Draw(rt, "replicas"),
			rolling(shares.Draw(rt, "surge"), shares.Draw(rt, "unavailable"))))
		w.settle()
		for i := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			w.keepBounds("web")
			switch rapid.SampledFrom([]string{"update", "scale", "pause", "resume", "lose", "nothing", "nothing", "back"}).Draw(rt, "what") {
			case "update":
				change(w, "web", update(fmt.Sprint("v", 2+i)))
			case "back":
				change(w, "web", update("v1"))
			case "scale":
				change(w, "web", scale(rapid.Int32Range(0, 12).Draw(rt, "replicas")))
				w.check = nil // fewer may serve when fewer are wanted, in proportion
			case "pause":
				change(w, "web", func(d *appsv1.Deployment) { d.Spec.Paused = true })
			case "resume":
				change(w, "web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
			case "lose":
				if living := w.living(); len(living) > 0 {
					w.lose(living[rng.IntN(len(living))])
				}
			}
			w.pass()
			w.step()
		}
		w.check = nil
		change(w, "web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
		w.settle()
		d := w.deployment("web")
		want := map[string]int{}
		if n := int(*d.Spec.Replicas); n > 0 {
			want[versionOf(&corev1.Pod{Spec: d.Spec.Template.Spec})] = n
		}
		if diff := cmp.Diff(want, versions(w.living())); diff != "" {
			rt.Fatalf("versions at the end (-want +got):\n%s", diff)
		}
	})
}

// TestScaleDuringRollout: the sets keep their shares. The numbers are those of the
// rule: (replicas + surge) now against then, rounded, the rest to the largest.
func TestScaleDuringRollout(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int32
		surge    string
		sizes    [2]int32 // old, new before
		want     [2]int32
	}{
		{"up, ten to fifteen", 10, 15, "3", [2]int32{8, 5}, [2]int32{11, 7}},
		{"down, ten to five", 10, 5, "3", [2]int32{8, 5}, [2]int32{5, 3}},
		{"up, equal halves", 10, 20, "0", [2]int32{5, 5}, [2]int32{10, 10}},
		{"down, equal halves, odd", 10, 5, "0", [2]int32{5, 5}, [2]int32{2, 3}},
		{"up by one: the largest takes it", 10, 11, "0", [2]int32{7, 3}, [2]int32{8, 3}},
		{"up by one of equals: the newer", 10, 11, "0", [2]int32{5, 5}, [2]int32{5, 6}},
		{"to none", 10, 0, "3", [2]int32{8, 5}, [2]int32{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.put(deploy("web", c.from, rolling(c.surge, "1")))
			w.settle()
			change(w, "web", update("v2"))
			w.broken = func(p *corev1.Pod) bool { return versionOf(p) == "v2" }
			w.step()
			w.pass()
			sized := func() (got [2]int32) {
				for _, rs := range all[*appsv1.ReplicaSet](w, cluster.ReplicaSet) {
					got[revisionOf(rs)-1] = *rs.Spec.Replicas
				}
				return got
			}
			for _, rs := range all[*appsv1.ReplicaSet](w, cluster.ReplicaSet) {
				n := c.sizes[revisionOf(rs)-1]
				rs.Spec.Replicas = &n
				w.put(rs)
			}
			change(w, "web", scale(c.to))
			w.pass()
			if got := sized(); got != c.want {
				t.Errorf("sizes %v, want %v", got, c.want)
			}
		})
	}
}

// TestPause: a paused Deployment changes no revision, but follows its scale; resumed,
// it goes on.
func TestPause(t *testing.T) {
	w := newWorld(t)
	w.put(deploy("web", 4))
	w.settle()
	change(w, "web", func(d *appsv1.Deployment) { d.Spec.Paused = true })
	change(w, "web", update("v2"))
	w.settle()
	change(w, "web", scale(6))
	w.settle()
	if diff := cmp.Diff(map[string]int{"v1": 6}, versions(w.living())); diff != "" {
		t.Errorf("versions while paused (-want +got):\n%s", diff)
	}
	if c := w.progress("web"); c == nil || c.Reason != "DeploymentPaused" || c.Status != corev1.ConditionUnknown {
		t.Errorf("condition while paused: %+v", c)
	}
	change(w, "web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
	w.pass()
	if c := w.progress("web"); c == nil || c.Reason == "DeploymentPaused" {
		t.Errorf("condition after it was resumed: %+v", c)
	}
	w.settle()
	if diff := cmp.Diff(map[string]int{"v2": 6}, versions(w.living())); diff != "" {
		t.Errorf("versions at the end (-want +got):\n%s", diff)
	}
	w.put(deploy("new", 3, func(d *appsv1.Deployment) { d.Spec.Paused = true }))
	if n := w.settle(); len(all[*appsv1.ReplicaSet](w, cluster.ReplicaSet)) != 2 {
		t.Errorf("a Deployment that begins paused makes a ReplicaSet (%d passes)", n)
	}
}

// TestHistory: revisions are numbered, a template that comes back gets a new number
// and keeps its ReplicaSet, and old ones are forgotten beyond the limit.
func TestHistory(t *testing.T) {
	w := newWorld(t)
	limit := int32(2)
	w.put(deploy("web", 2, func(d *appsv1.Deployment) {
		d.Spec.RevisionHistoryLimit = &limit
		d.Annotations = map[string]string{"kubernetes.io/change-cause": "first", "toyproxy.dev/last-applied": "{}"}
	}))
	w.settle()
	numbers := func() map[string]string {
		out := map[string]string{}
		for _, rs := range all[*appsv1.ReplicaSet](w, cluster.ReplicaSet) {
			out[versionOf(&corev1.Pod{Spec: rs.Spec.Template.Spec})] = rs.Annotations[revisionKey]
		}
		return out
	}
	for _, v := range []string{"v2", "v3"} {
		change(w, "web", update(v))
		change(w, "web", func(d *appsv1.Deployment) { d.Annotations["kubernetes.io/change-cause"] = v })
		w.settle()
	}
	if diff := cmp.Diff(map[string]string{"v1": "1", "v2": "2", "v3": "3"}, numbers()); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	change(w, "web", update("v1"))
	w.settle()
	if diff := cmp.Diff(map[string]string{"v1": "4", "v2": "2", "v3": "3"}, numbers()); diff != "" {
		t.Errorf("numbers after going back (-want +got):\n%s", diff)
	}
	if got := w.deployment("web").Annotations[revisionKey]; got != "4" {
		t.Errorf("revision of the Deployment %q, want 4", got)
	}
	for _, rs := range all[*appsv1.ReplicaSet](w, cluster.ReplicaSet) {
		if rs.Annotations[revisionKey] == "4" && rs.Annotations[historyKey] != "1" {
			t.Errorf("earlier numbers of revision 4: %q, want 1", rs.Annotations[historyKey])
		}
		if _, has := rs.Annotations["toyproxy.dev/last-applied"]; has {
			t.Error("a ReplicaSet inherits how the Deployment was applied")
		}
		if cause := rs.Annotations["kubernetes.io/change-cause"]; rs.Annotations[revisionKey] == "2" && cause != "v2" {
			t.Errorf("cause of revision 2: %q", cause)
		}
	}
	change(w, "web", update("v5"))
	w.settle()
	if diff := cmp.Diff(map[string]string{"v1": "4", "v3": "3", "v5": "5"}, numbers()); diff != "" {
		t.Errorf("numbers with the oldest forgotten (-want +got):\n%s", diff)
	}
}

// TestHashCollision: a name that another template has got is not taken.
func TestHashCollision(t *testing.T) {
	w := newWorld(t)
	d := deploy("web", 1)
	hash := templateHash(&d.Spec.Template, nil)
	other := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-" + hash, Labels: map[string]string{"app": "other"}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32), Selector: selector("other"), Template: template("other", "v1")},
	}
	w.put(d, other)
	w.settle()
	if n := w.deployment("web").Status.CollisionCount; n == nil || *n != 1 {
		t.Errorf("collision count %v, want 1", n)
	}
	if len(w.living()) != 1 {
		t.Errorf("%d Pods, want 1", len(w.living()))
	}
}
