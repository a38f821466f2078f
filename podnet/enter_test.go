package podnet

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestDo(t *testing.T) {
	n := newNode(t)
	create(t, n, requests("a", "b")...)
	here, err := NamespaceID()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{}
	for _, name := range []string{"a", "b"} {
		if want[name], err = inode(n.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 50 {
		for name, id := range want {
			wg.Go(func() {
				err := Do(n.Path(name), func() error {
					runtime.Gosched()
					if got, err := NamespaceID(); err != nil || got != id {
						t.Errorf("in %s: %d, want %d, %v", name, got, id, err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if got, err := NamespaceID(); err != nil || got != here {
		t.Errorf("the caller moved from %d to %d, %v", here, got, err)
	}
}

func TestDoErrors(t *testing.T) {
	n := newNode(t)
	create(t, n, requests("a")...)
	cause := errors.New("cause")
	if err := Do(n.Path("a"), func() error { return cause }); err != cause {
		t.Errorf("got %v", err)
	}
	if err := Do(n.Path("a"), func() error { runtime.Goexit(); return nil }); !errors.Is(err, errNotFinished) {
		t.Errorf("got %v", err)
	}
	if err := Do("no-such-namespace", func() error { return nil }); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no-such-namespace") {
		t.Errorf("got %v", err)
	}
}
