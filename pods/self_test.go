package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestOwnProgram runs containers whose command is toyproxy: the program that made
// them, though no PATH has it, its file is gone, and the user may not look there.
func TestOwnProgram(t *testing.T) {
	l := newLab(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(t.TempDir(), "hidden")
	program := filepath.Join(hidden, "toyproxy-1")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	l.cfg.Program = program
	// A restart after the file is gone, by another user, with arguments of its own.
	pod := ownPod("web-1", "again")
	nobody := int64(65534)
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &nobody}
	if err := l.try(pod); err != nil {
		t.Fatal(err)
	}
	want := "toyproxy version " + l.cfg.StateDir
	l.awaitLines("web-1", want, 1)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	l.awaitLines("web-1", want, 2)

	// The state directory is the node's: nobody may write to it, root may.
	second := ownPod("web-4", "once")
	second.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}
	l.open()
	if err := l.try(second); err != nil {
		t.Fatal(err)
	}
	l.awaitLines("web-4", want, 1)
	poll(t, "a note in the state directory", func() bool {
		_, err := os.Stat(filepath.Join(l.cfg.StateDir, "note-of-web-4"))
		return err == nil
	})

	// What a spec says of the variable counts; a command elsewhere has none.
	l.open()
	set, other := ownPod("web-2", "once"), ownPod("web-3", "once")
	set.Spec.Containers[0].Env = []corev1.EnvVar{{Name: StateDirVariable, Value: "/elsewhere"}}
	other.Spec.Containers[0].Command = []string{"sh", "-c", "echo none:$" + StateDirVariable + "; ls -A " + l.cfg.StateDir}
	if err := l.try(set, other); err != nil {
		t.Fatal(err)
	}
	l.awaitLines("web-2", "toyproxy version /elsewhere", 1)
	l.awaitLines("web-3", "none:", 1)
	if log, err := os.ReadFile(LogPath(l.cfg.StateDir, "default", "web-3", "main")); err != nil || string(log) != "none:\n" {
		t.Errorf("another container sees of the state directory: %q, %v", log, err)
	}
}

// ownPod runs `toyproxy version`, once or again and again.
func ownPod(name, how string) *corev1.Pod {
	p := program(name, ProgramName, "version")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	if how == "again" {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	return p
}

// awaitLines waits until the log of a Pod, with that of the run before, has a line
// that often.
func (l *lab) awaitLines(pod, line string, times int) {
	l.t.Helper()
	path := LogPath(l.cfg.StateDir, "default", pod, "main")
	seen := ""
	poll(l.t, pod+": "+line, func() bool {
		now, _ := os.ReadFile(path)
		before, _ := os.ReadFile(strings.TrimSuffix(path, ".log") + ".previous.log")
		seen = string(before) + string(now)
		return strings.Count(seen, line+"\n") >= times
	})
}
