package follow

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
)

// replica is what one who follows knows from events.
type replica struct {
	*Directory
	known map[string]string
}

func (r *replica) catch(t *testing.T) {
	t.Helper()
	for {
		events, err := r.Catch()
		must(t, err)
		for _, e := range events {
			key := e.Object.String()
			if _, had := r.known[key]; had != (e.Old != nil) {
				t.Errorf("event of %s: known %t, old %v", key, had, e.Old)
			}
			if e.Old != nil && e.Old.GetName() != e.Object.Name {
				t.Errorf("event of %s: old is %q", key, e.Old.GetName())
			}
			if delete(r.known, key); e.New != nil {
				r.known[key] = address(e.New)
			}
		}
		if !r.lean || len(events) == 0 {
			return
		}
	}
}

// TestRandomChanges: whatever happens to files and directories, who follows knows what
// who reads everything does; lean or not, whenever it looks.
func TestRandomChanges(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomChanges(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func randomChanges(t *testing.T, random *rand.Rand) {
	dir := filepath.Join(t.TempDir(), "state")
	full := &replica{open(t, dir, cluster.Service, cluster.Pod), map[string]string{}}
	lean, err := OpenLean(dir, cluster.Service, cluster.Pod)
	must(t, err)
	t.Cleanup(func() { _ = lean.Close() })
	replicas := []*replica{full, {lean, map[string]string{}}}
	empty := func() *corev1.Pod { return &corev1.Pod{} }
	local, remote := state.Open(dir, "pods", empty), state.Open(dir, state.RemotePods, empty)
	for step := range 600 {
		name, ip := fmt.Sprintf("o%d", random.IntN(6)), fmt.Sprintf("10.0.0.%d", random.IntN(3)+1)
		pods := []state.Dir[*corev1.Pod]{local, remote}[random.IntN(2)]
		switch random.IntN(12) {
		case 0:
			must(t, services(dir).Delete(named(name)))
		case 1, 2:
			must(t, pods.Delete(named(name)))
		case 3:
			must(t, os.RemoveAll([]string{dir, pods.Path(), services(dir).Path()}[random.IntN(3)]))
		case 4, 5, 6:
			save(t, dir, service(name, ip))
		default:
			_, err := pods.Save(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Status: corev1.PodStatus{PodIP: ip}})
			must(t, err)
		}
		for _, r := range replicas {
			if random.IntN(3) > 0 {
				continue
			}
			r.catch(t)
			if truth := listed(t, dir, local, remote); !maps.Equal(r.known, truth) {
				t.Fatalf("step %d, lean %t: known %v, there is %v", step, r.lean, r.known, truth)
			}
		}
	}
}

// listed is everything, read anew.
func listed(t *testing.T, dir string, local, remote state.Dir[*corev1.Pod]) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, d := range []state.Dir[*corev1.Pod]{remote, local} {
		all, err := d.List()
		must(t, err)
		for _, p := range all {
			out[cluster.MakeRef(cluster.Pod, p.Namespace, p.Name).String()] = p.Status.PodIP
		}
	}
	all, err := services(dir).List()
	must(t, err)
	for _, s := range all {
		out[cluster.MakeRef(cluster.Service, s.Namespace, s.Name).String()] = s.Spec.ClusterIP
	}
	return out
}

// TestLeanParts: many objects come in parts, and none is left out.
func TestLeanParts(t *testing.T) {
	dir := t.TempDir()
	for i := range part + 10 {
		save(t, dir, service(fmt.Sprintf("s%d", i), "10.0.0.1"))
	}
	d, err := OpenLean(dir, cluster.Service)
	must(t, err)
	defer d.Close()
	for _, want := range []int{part, 10, 0} {
		events, err := d.Catch()
		must(t, err)
		if len(events) != want {
			t.Fatalf("%d events, want %d", len(events), want)
		}
	}
}
