package notice

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/sandbox"
)

func TestMain(m *testing.M) { sandbox.Main(m) }

// A rule that somebody changes is told at once, and nothing is told of none. The
// end of the context ends socket and goroutine.
func TestWatch(t *testing.T) {
	sandbox.Node(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	woken := make(chan struct{}, 100)
	before := runtime.NumGoroutine()
	done, err := Watch(ctx, func() { woken <- struct{}{} })
	if errors.Is(err, dataplane.ErrUnsupported) && os.Getenv("VMRUN_GUEST") == "" {
		t.Skipf("SKIP(kernel): nf_tables: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
		t.Error("told of nothing")
	case <-time.After(50 * time.Millisecond):
	}
	for _, args := range [][]string{{"add", "table", "ip", "somebody"}, {"add", "chain", "ip", "somebody", "c"}, {"delete", "table", "ip", "somebody"}} {
		if out, err := exec.Command("nft", args...).CombinedOutput(); err != nil {
			t.Fatalf("nft %v: %v: %s", args, err, out)
		}
		select {
		case <-woken:
		case <-time.After(time.Minute):
			t.Errorf("nft %v: not told", args)
		}
		for len(woken) > 0 {
			<-woken
		}
	}
	cancel()
	<-done
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 100 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
