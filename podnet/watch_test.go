package podnet

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/test/sandbox"
)

// next returns the first event that has an item with that text.
func next(t *testing.T, events <-chan Event, text string) Event {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatalf("watch ended before %q", text)
			}
			for _, i := range e.Items {
				if strings.HasPrefix(i.Text, text) {
					return e
				}
			}
		case <-timeout:
			t.Fatalf("no event with %q", text)
		}
	}
}

func TestWatch(t *testing.T) {
	sandbox.Node(t)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if e := next(t, events, "link lo down"); !e.Full || e.Lost {
		t.Errorf("first event: %+v", e)
	}
	sh(t, "ip link add x type bridge; ip link set x up; ip addr add 192.0.2.1/24 dev x")
	next(t, events, "link x up")
	next(t, events, "address 192.0.2.1/24 dev")
	next(t, events, "route 192.0.2.0/24 dev")
	sh(t, "ip link del x")
	if e := next(t, events, "link x"); !e.Items[0].Gone {
		e = next(t, events, "link x")
	}
	cancel()
	poll(t, "the channel's end", func() bool {
		select {
		case _, ok := <-events:
			return !ok
		default:
			return false
		}
	})
}

// Fault 91: nobody reads while 5000 addresses come.
func TestWatchOverflow(t *testing.T) {
	sandbox.Node(t)
	sh(t, "ip link set lo up")
	events, err := watch(t.Context(), 4096)
	if err != nil {
		t.Fatal(err)
	}
	next(t, events, "link lo")
	var batch strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&batch, "addr add 127.1.%d.%d/32 dev lo\n", i/250, i%250+1)
	}
	file := t.TempDir() + "/batch"
	if err := os.WriteFile(file, []byte(batch.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	sh(t, "ip -batch %s", file)
	// What was listed, and told since, is all there is. The loss may be noticed
	// before the last address has come.
	known, lost := map[string]bool{}, false
	for !lost || len(known) < 5000 {
		e := next(t, events, "")
		lost = lost || e.Lost
		if e.Lost && !e.Full {
			t.Fatal("after a loss not everything is listed")
		}
		if e.Full {
			clear(known)
		}
		for _, i := range e.Items {
			if strings.HasPrefix(i.Text, "address 127.1.") {
				known[i.Text] = true
			}
		}
	}
	sh(t, "ip addr add 127.2.0.1/32 dev lo")
	next(t, events, "address 127.2.0.1/32")
}

func TestWatchLeavesNothing(t *testing.T) {
	sandbox.Node(t)
	count := func() int {
		fds, _ := os.ReadDir("/proc/self/fd")
		return len(fds) + runtime.NumGoroutine()
	}
	before := count()
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		events, err := Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		next(t, events, "link lo")
		cancel()
		for range events {
		}
	}
	poll(t, "sockets and goroutines back", func() bool { return count() <= before })
}
