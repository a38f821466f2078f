package pods

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// Only phase, conditions of its own and container statuses of a Pod are written;
// what others have written meanwhile stays, and a Pod that is gone stays gone.
func TestStatusLeavesTheRest(t *testing.T) {
	dir := state.OpenPods(t.TempDir())
	p := web("web-1")
	deleted := metav1.NewTime(time.Unix(1700000000, 0))
	p.DeletionTimestamp, p.Annotations = &deleted, map[string]string{"a": "b"}
	p.Status.PodIP, p.Status.Conditions = "10.244.0.2", []corev1.PodCondition{{Type: "example.org/gate", Status: corev1.ConditionTrue}}
	if _, err := dir.Save(p); err != nil {
		t.Fatal(err)
	}
	rep := report{Changed: time.Unix(1700000001, 0), Containers: []containerReport{{Name: "main", Phase: running, Ready: true, Begun: true}}}
	if err := saveStatus(dir, idOf(p), rep); err != nil {
		t.Fatal(err)
	}
	got, err := dir.Load(idOf(p))
	if err != nil || !got.DeletionTimestamp.Equal(&deleted) || got.Annotations["a"] != "b" || got.Labels["app"] != "web" ||
		got.Status.PodIP != "10.244.0.2" || got.Status.Conditions[0].Type != "example.org/gate" || !ready(got) {
		t.Errorf("%+v, %v", got, err)
	}
	// The time since when it is ready stays while it is.
	rep.Changed = time.Unix(1700000099, 0)
	if err := saveStatus(dir, idOf(p), rep); err != nil {
		t.Fatal(err)
	}
	got, _ = dir.Load(idOf(p))
	for _, c := range got.Status.Conditions {
		if c.Type == corev1.PodReady && c.LastTransitionTime.Unix() != 1700000001 {
			t.Errorf("ready since %s", c.LastTransitionTime)
		}
	}
	if err := saveStatus(dir, idOf(web("gone")), rep); err != nil {
		t.Error(err)
	}
	if all, err := dir.List(); err != nil || len(all) != 1 {
		t.Errorf("%d Pods, %v", len(all), err)
	}
}

// Somebody who holds the lock of the state directory, stopped say, keeps no
// container from being started again.
func TestSupervisionNeedsNoLock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sync(web("web-1"))
	f, err := os.Open(filepath.Join(l.cfg.StateDir, "pods"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	old := l.report("web-1").Containers[0].Pid
	syscall.Kill(old, syscall.SIGKILL)
	poll(t, "another process", func() bool {
		out := sh(t, "pgrep -P %d || true", l.pause("web-1").Pid)
		return out != "" && !strings.Contains(out, "\n") && out != strconv.Itoa(old)
	})
	if c := l.report("web-1").Containers[0]; c.Pid != old {
		t.Error("the report was written without the lock")
	}
	f.Close()
	poll(t, "the report", func() bool { c := l.report("web-1").Containers[0]; return c.Restarts == 1 && c.Ready })
}
