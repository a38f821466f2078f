package pods

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault 88: only TERM and INT end it.
func TestPauseIgnoresSignals(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"))
	p := l.pause("web-1")
	for _, sig := range []unix.Signal{unix.SIGCHLD, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGWINCH} {
		if err := p.signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	l.sync(web("web-1"))
	if l.pause("web-1") != p || !p.alive() {
		t.Error("the pause process was replaced")
	}
	ask(t, "tcp", "10.244.0.2:8080", "x\n")
	if err := p.signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	poll(t, "the end by INT", func() bool { return !p.alive() })
}

// A container gets no ignored signals from its pause process.
func TestContainersHaveDefaultSignals(t *testing.T) {
	l := newLab(t)
	l.sync(program("p", "sleep", "1000"))
	status := sh(t, "grep SigIgn /proc/%d/status", l.report("p").Containers[0].Pid)
	if mask := strings.Fields(status)[1]; strings.Trim(mask, "0") != "" {
		t.Errorf("ignored: %s", mask)
	}
}

// Fault 87: orphans are reaped at once.
func TestPauseReapsOrphans(t *testing.T) {
	l := newLab(t)
	l.sync(program("p", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'sleep 0.05 & exec true' &) ; done; sleep 1000"))
	pause := l.pause("p")
	children := func() (out int) {
		each(func(s stat) {
			if s.parent == pause.Pid {
				out++
			}
		})
		return out
	}
	poll(t, "one child left", func() bool { return children() == 1 })
}

// L3, fault 88: a Pod whose pause process died is rebuilt once, with another
// address, and nothing of the old one is left running.
func TestKilledPauseIsRebuilt(t *testing.T) {
	l := newLab(t)
	pod := program("p", "sh", "-c", "sleep 1000 & sleep 1000")
	before := l.sync(pod)[0]
	pause, container := l.pause("p"), l.report("p").Containers[0].Pid
	if err := pause.signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll(t, "the end of pause", func() bool { return !pause.alive() })
	live, err := l.List(t.Context())
	if err != nil || ready(live[0]) || live[0].Status.Reason != reasonPauseGone {
		t.Errorf("dead Pod: %+v, %v", live[0].Status, err)
	}
	after := l.sync(pod)[0]
	if after.Status.PodIP == before.Status.PodIP {
		t.Errorf("address %s was reused at once", before.Status.PodIP)
	}
	left := 0
	each(func(s stat) {
		if (s.session == pause.Pid || s.pid == container) && !s.dead() {
			left++
		}
	})
	if left > 0 {
		t.Errorf("%d processes of the old Pod are left", left)
	}
}

func TestGraceThenKill(t *testing.T) {
	l := newLab(t)
	grace := int64(1)
	pod := program("p", "sh", "-c", "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & while :; do sleep 0.1; done")
	pod.Spec.TerminationGracePeriodSeconds = &grace
	l.sync(pod)
	began := time.Now()
	l.sync()
	if took := time.Since(began); took < time.Second || took > 4*time.Second {
		t.Errorf("took %s", took)
	}
	if n := sh(t, "pgrep -fc '[t]rap .. TERM' || true"); n != "0" {
		t.Errorf("%s processes left", n)
	}
}

// Orphans that left session and group of their container come to the pause
// process, and end with the Pod.
func TestOrphansEndWithThePod(t *testing.T) {
	l := newLab(t)
	l.sync(program("p", "sh", "-c", "(setsid sleep 1234 &); exec sleep 1000"))
	pause := l.pause("p")
	var orphan process
	poll(t, "the orphan at the pause process", func() bool {
		each(func(s stat) {
			if s.parent == pause.Pid && s.session != pause.Pid {
				orphan = process{s.pid, s.start}
			}
		})
		return orphan.Pid != 0
	})
	began := time.Now()
	l.sync()
	if orphan.alive() || time.Since(began) > 5*time.Second {
		t.Errorf("orphan alive: %v, after %s", orphan.alive(), time.Since(began))
	}
}

// Processes of others in the Pod's namespace outlive it.
func TestOthersInsideAreLeft(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"))
	other := exec.Command("nsenter", "--net="+l.net.Path("web-1"), "sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	poll(t, "sleep inside", func() bool { return netnsOf(other.Process.Pid) == inodeOf(l.net.Path("web-1")) })
	l.sync()
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("it was ended: %v", err)
	}
	other.Process.Kill()
	other.Wait()
}

// L3, fault 88: a container that crashes is started again in its Pod: same
// name, same address, same pause process.
func TestCrashedContainerIsRestarted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cfg.Backoff = Backoff{Initial: 20 * time.Millisecond, Most: 20 * time.Millisecond}
	before := l.sync(web("web-1"))[0]
	pause := l.pause("web-1")
	for n := range 10 {
		syscall.Kill(l.report("web-1").Containers[0].Pid, syscall.SIGKILL)
		poll(t, "the restart", func() bool { c := l.report("web-1").Containers[0]; return c.Restarts == n+1 && c.Ready })
		if got := ask(t, "tcp", "10.244.0.2:8080", "x\n"); !strings.HasPrefix(got, "web-1 ") {
			t.Errorf("after restart %d: %q", n+1, got)
		}
	}
	after := l.sync(web("web-1"))[0]
	last := after.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if l.pause("web-1") != pause || after.Status.PodIP != before.Status.PodIP || after.Status.ContainerStatuses[0].RestartCount != 10 || last.Signal != int32(syscall.SIGKILL) {
		t.Errorf("status %+v", after.Status)
	}
}

// One that is never to be restarted is only recorded.
func TestCrashIsRecorded(t *testing.T) {
	l := newLab(t)
	pod := program("p", "sleep", "1000")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	l.sync(pod)
	syscall.Kill(l.report("p").Containers[0].Pid, syscall.SIGSEGV)
	poll(t, "the record", func() bool { return l.report("p").Containers[0].Phase == exited })
	after := l.sync(pod)[0]
	if ready(after) || after.Status.Phase != corev1.PodFailed || after.Status.ContainerStatuses[0].State.Terminated.Signal != int32(syscall.SIGSEGV) {
		t.Errorf("status %+v", after.Status)
	}
	if kept, err := l.state.List(); err != nil || ready(kept[0]) {
		t.Errorf("other processes still see it ready: %v", err)
	}
}

// The process is told by its command line, and lies in a session of its own.
func TestPauseIsRecognisable(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"))
	p := l.pause("web-1")
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/cmdline")
	if got := strings.ReplaceAll(string(b), "\x00", " "); err != nil || !strings.HasPrefix(got, "toyproxy pause default/web-1 ") {
		t.Errorf("command line %q, %v", got, err)
	}
	if s, err := readStat(p.Pid); err != nil || s.session != p.Pid {
		t.Errorf("session %d, %v", s.session, err)
	}
}

func TestSlowProgramIsAwaited(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	pod := web("slow")
	server, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pod.Spec.Containers[0].Command = []string{"sh", "-c", "sleep 0.5; exec " + server + " stand-in --pod slow --port 8080/TCP"}
	l.sync(pod)
	ask(t, "tcp", "10.244.0.2:8080", "x\n")
}

// A pass that finds a Pod starting, as one that was killed left it, waits for it.
func TestStartingPodIsAwaited(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	pod := web("slow")
	server, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pod.Spec.Containers[0].Command = []string{"sh", "-c", "sleep 1; exec " + server + " stand-in --pod slow --port 8080/TCP"}
	first, cancel := context.WithCancel(t.Context())
	p, err := l.Plan(first, []*corev1.Pod{pod})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(400*time.Millisecond, cancel)
	if err := p.Apply(first); err == nil {
		t.Fatal("the first pass was not interrupted")
	}
	if planned := l.sync(pod)[0]; !ready(planned) {
		t.Error("the second pass did not plan it as ready")
	}
	ask(t, "tcp", "10.244.0.2:8080", "x\n")
}

// A pause process that dies before it says anything is noticed at once.
func TestPauseThatDiesIsNoticed(t *testing.T) {
	l := newLab(t)
	l.cfg.Program = "/bin/false"
	began := time.Now()
	err := l.try(web("web-1"))
	if err == nil || !strings.Contains(err.Error(), "Pod default/web-1: container pause: PauseProcessGone: the pause process has ended: it said nothing") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > l.cfg.StartTimeout/2 {
		t.Errorf("took %s", took)
	}
}

// Whoever ends toyproxy by name meets no container.
func TestStandInHasANameOfItsOwn(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"))
	pid := l.report("web-1").Containers[0].Pid
	if got := sh(t, "cat /proc/%d/comm; tr '\\0' ' ' </proc/%d/cmdline", pid, pid); !strings.HasPrefix(got, "stand-in\nstand-in --pod web-1 ") || strings.Contains(got, "toyproxy") {
		t.Errorf("got %q", got)
	}
}

// The program is looked up as the container would, whatever the PATH of those
// who started the pause process.
func TestProgramIsLookedUpInTheContainersPath(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "my-server"), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	relative, own := program("relative", "./my-server"), program("own", "my-server")
	relative.Spec.Containers[0].WorkingDir = dir
	own.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PATH", Value: "/nowhere:" + dir + ":/bin"}}
	t.Setenv("PATH", "")
	if err := l.try(relative, own, program("standard", "sleep", "1000")); err != nil {
		t.Error(err)
	}
}

// A program that goes into the background takes its container with it: nothing of
// it is left to hold a port, in whatever session and process group it is.
func TestDaemonEndsWithItsContainer(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cfg.StartTimeout = time.Second
	p := program("p", "sh", "-c", "(setsid sleep 5432 >/dev/null 2>&1 &); sleep 0.3")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	_ = l.try(p)
	poll(t, "its end", func() bool { cs := l.report("p").Containers; return len(cs) > 0 && cs[0].Phase == exited })
	poll(t, "the end of what it left", func() bool { return sh(t, "pgrep -fc '^[s]leep 5432' || true") == "0" })
}

// Who deletes a Pod may give it less time than its spec does.
func TestGraceOfADeletion(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sync(program("p", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"))
	id := idOf(program("p"))
	err := l.Change(t.Context(), id, func(p *corev1.Pod) bool {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(1))
		return true
	})
	pause := l.pause("p")
	if err != nil || pause.signal(unix.SIGTERM) != nil {
		t.Fatal(err)
	}
	began := time.Now()
	poll(t, "its end", func() bool { return !pause.alive() })
	if took := time.Since(began); took < time.Second || took > 4*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestLastWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pause.log")
	for text, want := range map[string]string{
		"2026-12-01T03:21:37Z main: Started: it runs\n":                                                 "",
		"2026-12-01T03:21:37Z main: Started: it runs\npanic: oh\x1b[31m no\n\ngoroutine 1 [running]:\n": "panic: oh?[31m no",
		"pause: no overlay\nError: pause: no space left\n":                                              "Error: pause: no space left",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastWords(path); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := lastWords(path + ".none"); got != "" {
		t.Errorf("no log: %q", got)
	}
}
