package pods

import (
	"os/exec"
	"testing"
	"time"
)

// The end of a process that is watched is told at once, of a child and of somebody
// else's alike; that of another is not.
func TestVigil(t *testing.T) {
	woken := make(chan struct{}, 10)
	v, err := NewVigil(func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	start := func() (process, *exec.Cmd) {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		s, err := readStat(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return process{s.pid, s.start}, cmd
	}
	a, first := start()
	b, second := start()
	_, third := start()
	seen := []Seen{{live: live{held: true, pause: a}}, {live: live{held: true, pause: b}}}
	for range 2 { // again changes nothing
		if err := v.Keep(seen); err != nil {
			t.Fatal(err)
		}
	}
	told := func(want bool, what string) {
		t.Helper()
		wait := 5 * time.Second
		if !want {
			wait = 100 * time.Millisecond
		}
		select {
		case <-woken:
			if !want {
				t.Errorf("%s: told", what)
			}
		case <-time.After(wait):
			if want {
				t.Errorf("%s: not told", what)
			}
		}
	}
	_ = third.Process.Kill()
	told(false, "nobody's Pod")
	_ = first.Process.Kill()
	told(true, "a Pod")
	told(false, "the same again")
	if err := v.Keep(seen[:1]); err != nil {
		t.Fatal(err)
	}
	_ = second.Process.Kill()
	told(false, "a Pod that is watched no more")
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}
