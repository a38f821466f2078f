package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A log is read over its rotation, by lines, by time, and with the run before.
func TestReadLog(t *testing.T) {
	dir, p := t.TempDir(), program("p")
	path := LogPath(dir, "default", "p", "main")
	get := func(o LogOptions) string {
		t.Helper()
		var b bytes.Buffer
		if err := ReadLog(t.Context(), &b, dir, p, "main", o); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if err := ReadLog(t.Context(), io.Discard, dir, p, "main", LogOptions{}); !errors.Is(err, ErrNoLog) {
		t.Errorf("without a log: %v", err)
	}
	first := writeRun(t, path, "old 1\n", "old 2\n")
	second := writeRun(t, path, "line 1\n", "line 2\n", "line 3\n", "half")
	for _, tc := range []struct {
		name, want string
		options    LogOptions
	}{
		{"all", "line 1\nline 2\nline 3\nhalf", LogOptions{Tail: -1}},
		{"tail over the rotation", "line 3\nhalf", LogOptions{Tail: 2}},
		{"none", "", LogOptions{Tail: 0}},
		{"since the third", "line 3\nhalf", LogOptions{Tail: -1, Since: second[2]}},
		{"since later", "", LogOptions{Tail: -1, Since: second[3].Add(time.Hour)}},
		{"the run before", "old 1\nold 2\n", LogOptions{Tail: -1, Previous: true}},
		{"the run before, since", "old 2\n", LogOptions{Tail: -1, Previous: true, Since: first[1]}},
	} {
		if got := get(tc.options); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	lines := strings.Split(get(LogOptions{Tail: -1, Timestamps: true}), "\n")
	for i, line := range lines {
		at, _, _ := strings.Cut(line, " ")
		if when, err := time.Parse(time.RFC3339Nano, at); err != nil || when.Before(second[i]) {
			t.Errorf("%q, %v: want it after %s", line, err, second[i])
		}
	}
}

// writeRun writes a run's log, two lines a file, and returns the time before each.
func writeRun(t *testing.T, path string, lines ...string) []time.Time {
	t.Helper()
	if err := newRun(path); err != nil {
		t.Fatal(err)
	}
	l, err := openBoundedLog(path, 14)
	if err == nil {
		err = l.keepTimes()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var times []time.Time
	for _, line := range lines {
		l.stamped = time.Time{} // else lines this close share a time
		times = append(times, time.Now())
		if _, err := io.WriteString(l, line); err != nil {
			t.Fatal(err)
		}
	}
	return times
}

// Who follows a log sees all of it, over rotations, until the container ends.
func TestFollowLog(t *testing.T) {
	l := newLab(t)
	pod := program("p", "sh", "-c", "i=0; while [ $$i -lt 300000 ]; do i=$$((i+1)); echo $$i; done; sleep 0.3; echo end")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := l.try(pod); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := ReadLog(ctx, &b, l.cfg.StateDir, pod, "main", LogOptions{Tail: -1, Follow: true}); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) < 1000 || lines[len(lines)-1] != "end" {
		t.Fatalf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	var before int
	for i, line := range lines[:len(lines)-1] {
		var n int
		if fmt.Sscan(line, &n); i > 0 && n != before+1 {
			t.Fatalf("line %q after %d", line, before)
		}
		before = n
	}
	if _, err := os.Stat(previousLog(LogPath(l.cfg.StateDir, "default", "p", "main"))); err == nil {
		t.Error("there was no run before")
	}
}
