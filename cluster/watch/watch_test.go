package watch

import (
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// tree is a directory with what a test puts there, and the wake-ups of a watch.
type tree struct {
	*testing.T
	dir   string
	woken chan struct{}
}

func newTree(t *testing.T) *tree {
	return &tree{t, t.TempDir(), make(chan struct{}, 1000)}
}

func (tr *tree) must(err error) {
	tr.Helper()
	if err != nil {
		tr.Fatal(err)
	}
}

func (tr *tree) path(name string) string { return filepath.Join(tr.dir, name) }

func (tr *tree) write(name, text string) {
	tr.Helper()
	tr.must(os.MkdirAll(filepath.Dir(tr.path(name)), 0o755))
	tr.must(os.WriteFile(tr.path(name), []byte(text), 0o600))
}

// link makes a link, in place of another of its name if there is one.
func (tr *tree) link(target, name string) {
	tr.Helper()
	tr.must(os.Symlink(target, tr.path(name)+".tmp"))
	tr.must(os.Rename(tr.path(name)+".tmp", tr.path(name)))
}

// watch follows paths while the test runs, and does not return before it does: a
// change that it makes is told.
func (tr *tree) watch(follow func(context.Context, Config) error, cfg Config) {
	tr.Helper()
	ctx, cancel := context.WithCancel(tr.Context())
	done := make(chan error, 1)
	cfg.Wake = func() { tr.woken <- struct{}{} }
	go func() { done <- follow(ctx, cfg) }()
	tr.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tr.Error(err)
		}
	})
	for i := 0; ; i++ {
		if i == 100 {
			tr.Fatal("the watch never begins")
		}
		tr.write("zz-probe/a", fmt.Sprint(i))
		if tr.wokenWithin(50 * time.Millisecond) {
			break
		}
	}
	for tr.wokenWithin(100 * time.Millisecond) {
	}
}

func (tr *tree) wokenWithin(d time.Duration) bool {
	select {
	case <-tr.woken:
		return true
	case <-time.After(d):
		return false
	}
}

// Whatever changes what would be read wakes.
func TestWatchWakes(t *testing.T) {
	for name, change := range map[string]func(*tree){
		"edit":                  func(tr *tree) { tr.write("m/a.yaml", "2") },
		"new file":              func(tr *tree) { tr.write("m/b.yaml", "1") },
		"new folder":            func(tr *tree) { tr.write("m/new/deep/b.yaml", "1") },
		"deleted":               func(tr *tree) { tr.must(os.Remove(tr.path("m/a.yaml"))) },
		"renamed over":          func(tr *tree) { tr.write("x", "2"); tr.must(os.Rename(tr.path("x"), tr.path("m/a.yaml"))) },
		"folder replaced":       func(tr *tree) { tr.must(os.Rename(tr.path("m"), tr.path("n"))); tr.write("m/a.yaml", "2") },
		"below a folder":        func(tr *tree) { tr.write("m/sub/c.yaml", "2") },
		"mounted like a config": func(tr *tree) { tr.write("mnt/..2/c.yaml", "2"); tr.link("..2", "mnt/..data") },
		"file behind a link":    func(tr *tree) { tr.write("elsewhere/f", "2") },
		"link itself":           func(tr *tree) { tr.link("elsewhere/g", "link.yaml") },
		"file that came":        func(tr *tree) { tr.write("later/on/d.yaml", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.write("m/a.yaml", "1")
			tr.write("m/sub/c.yaml", "1")
			tr.write("mnt/..1/c.yaml", "1")
			tr.link("..1", "mnt/..data")
			tr.link("..data/c.yaml", "mnt/c.yaml")
			tr.write("elsewhere/f", "1")
			tr.write("elsewhere/g", "1")
			tr.link("elsewhere/f", "link.yaml")
			tr.write("zz-probe/a", "1")
			tr.watch(follow, Config{Paths: []string{tr.path("zz-probe"), tr.path("m"), tr.path("mnt"), tr.path("link.yaml"), tr.path("later/on")}})
			change(tr)
			if !tr.wokenWithin(5 * time.Second) {
				t.Fatal("nobody was woken")
			}
			// What is new is followed as well.
			for tr.wokenWithin(200 * time.Millisecond) {
			}
			tr.write("m/again.yaml", "1")
			if !tr.wokenWithin(5 * time.Second) {
				t.Error("nobody was woken afterwards")
			}
		})
	}
}

// What nobody would read wakes nobody.
func TestWatchLeavesOthersAlone(t *testing.T) {
	tr := newTree(t)
	tr.write("m/a.yaml", "1")
	tr.write("zz-probe/a", "1")
	tr.watch(follow, Config{Paths: []string{tr.path("zz-probe"), tr.path("m")}})
	tr.write("beside.log", "1")
	tr.write("m/.a.yaml.swp", "1")
	if _, err := os.ReadFile(tr.path("m/a.yaml")); err != nil {
		t.Fatal(err)
	}
	if tr.wokenWithin(300 * time.Millisecond) {
		t.Error("woken for nothing")
	}
}

// A burst of writes wakes a few times, not each time.
func TestWatchWaitsForQuiet(t *testing.T) {
	tr := newTree(t)
	tr.write("m/a.yaml", "1")
	tr.write("zz-probe/a", "1")
	tr.watch(follow, Config{Paths: []string{tr.path("zz-probe"), tr.path("m")}})
	for i := range 200 {
		tr.write("m/a.yaml", fmt.Sprint(i))
		time.Sleep(time.Millisecond)
	}
	n := 0
	for tr.wokenWithin(300 * time.Millisecond) {
		n++
	}
	if n == 0 || n > 20 {
		t.Errorf("woken %d times by 200 writes", n)
	}
}

// Without inotify the same changes are seen by looking.
func TestAppearanceChanges(t *testing.T) {
	tr := newTree(t)
	tr.write("mnt/..1/c.yaml", "1")
	tr.link("..1", "mnt/..data")
	tr.link("..data/c.yaml", "mnt/c.yaml")
	cfg := Config{Paths: []string{tr.path("mnt"), tr.path("later/d.yaml")}}
	seed := maphash.MakeSeed()
	last := cfg.appearance(seed)
	for i, change := range []func(){
		func() { tr.write("mnt/..2/c.yaml", "22"); tr.link("..2", "mnt/..data") },
		func() { tr.write("mnt/sub/e.yaml", "1") },
		func() { tr.write("later/d.yaml", "1") },
		func() { tr.must(os.Remove(tr.path("mnt/c.yaml"))) },
	} {
		change()
		now := cfg.appearance(seed)
		if now == last {
			t.Errorf("change %d is not seen", i)
		}
		if last = now; cfg.appearance(seed) != last {
			t.Errorf("change %d is seen for ever", i)
		}
	}
}
