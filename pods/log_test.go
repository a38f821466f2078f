package pods

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Two files, none longer than the limit, in which nothing is missing.
func TestBoundedLog(t *testing.T) {
	const limit = 1000
	path := filepath.Join(t.TempDir(), "logs", "main.log")
	var wrote bytes.Buffer
	for range 3 { // opened again, it goes on
		l, err := openBoundedLog(path, limit)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 70 {
			line := fmt.Sprintf("line %d\n", i)
			wrote.WriteString(line)
			if _, err := l.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		l.file.Close()
	}
	last, old := read(t, path), read(t, oldLog(path))
	if len(last) > limit || len(old) > limit || len(old) == 0 || !strings.HasSuffix(wrote.String(), old+last) {
		t.Errorf("%d and %d bytes:\n%s\nthen\n%s", len(old), len(last), old, last)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What a container prints to is a pipe that waits for its reader.
func TestOutputBlocks(t *testing.T) {
	l := newLab(t)
	l.sync(program("p", "sleep", "1000"))
	const nonblock = 0o4000 // as in fcntl(2)
	var flags int
	text := sh(t, "grep flags /proc/%d/fdinfo/1", l.report("p").Containers[0].Pid)
	if _, err := fmt.Sscanf(text, "flags: %o", &flags); err != nil || flags&nonblock != 0 {
		t.Errorf("%q, %v", text, err)
	}
}

// A container that prints much fills no memory, and loses no line at the end.
func TestLogOfAChattyContainer(t *testing.T) {
	l := newLab(t)
	pod := program("chatty", "sh", "-c", "seq 3000000; exit 3")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	_ = l.try(pod) // on a slow machine it runs on for a while
	poll(t, "its end", func() bool { return l.report("chatty").Containers[0].Phase == exited })
	if got := l.report("chatty").Containers[0].Message; got != "exited with status 3: 3000000" {
		t.Errorf("message %q", got)
	}
	path := LogPath(l.cfg.StateDir, "default", "chatty", "main")
	last, old := read(t, path), read(t, oldLog(path))
	if len(last) > maxLog || len(old) > maxLog {
		t.Errorf("%d and %d bytes", len(old), len(last))
	}
	lines := strings.Split(strings.TrimSpace(old+last), "\n")
	for i, first := 1, len(lines); i < first; i++ {
		if want := fmt.Sprint(3000000 - len(lines) + 1 + i); lines[i] != want {
			t.Fatalf("line %q, want %q", lines[i], want)
		}
	}
}
