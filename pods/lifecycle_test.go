package pods

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/podnet"
	"github.com/toyproxy/toyproxy/test/sandbox"
)

func TestPlanPredicts(t *testing.T) {
	l := newLab(t)
	foreign := web("foreign")
	foreign.Status.PodIP = "192.0.2.77"
	wanted := []*corev1.Pod{web("web-1"), foreign, program("client")}
	p, err := l.Plan(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(l.cfg.StateDir); len(entries) > 0 {
		t.Errorf("the plan wrote %v", entries)
	}
	if len(p.Pods) != 3 || p.Pods[1] != foreign || p.Pods[0].Status.PodIP != "10.244.0.2" || !ready(p.Pods[0]) || p.Pods[0].Status.HostIP != "192.0.2.1" {
		t.Fatalf("planned %+v", p.Pods)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	live, err := l.List(t.Context())
	if err != nil || len(live) != 2 {
		t.Fatalf("live: %v, %v", live, err)
	}
	for i, got := range []*corev1.Pod{live[1], live[0]} {
		want := p.Pods[2*i]
		if fmt.Sprint(got.Status.PodIPs, got.Status.Phase, ready(got)) != fmt.Sprint(want.Status.PodIPs, want.Status.Phase, ready(want)) {
			t.Errorf("%s: planned %+v, got %+v", want.Name, want.Status, got.Status)
		}
	}
	if kept, err := l.state.List(); err != nil || !ready(kept[0]) {
		t.Errorf("other processes see %+v, %v", kept, err)
	}
	l.sync(wanted...)
}

func TestStandInAnswersInAPod(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"))
	for _, tc := range []struct{ network, to, message, want string }{
		{"tcp", "10.244.0.2:8080", "hello\n", "web-1 10.244.0.2:8080 from 10.244.0.1\n"},
		{"tcp", "[fd00:10:244::2]:8080", "hello\n", "web-1 [fd00:10:244::2]:8080 from fd00:10:244::1\n"},
		{"udp", "10.244.0.2:5353", "ping", "web-1 10.244.0.2:5353 from 10.244.0.1: ping"},
		{"udp", "[fd00:10:244::2]:5353", "ping", "web-1 [fd00:10:244::2]:5353 from fd00:10:244::1: ping"},
	} {
		if got := ask(t, tc.network, tc.to, tc.message); got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.network, tc.to, got, tc.want)
		}
	}
}

func TestSpecChangeReplaces(t *testing.T) {
	l := newLab(t)
	before := l.sync(web("web-1"))[0]
	pause := l.pause("web-1")
	changed := web("web-1")
	changed.Spec.Containers[0].Image = "web:2"
	p, err := l.Plan(t.Context(), []*corev1.Pod{changed})
	if err != nil {
		t.Fatal(err)
	}
	if c := p.Changes()[0]; c.Op != dataplane.Remove || !strings.Contains(c.Reason, "spec changed") {
		t.Errorf("first change: %s", c)
	}
	after := l.sync(changed)[0]
	if after.Status.PodIP == before.Status.PodIP || pause.alive() {
		t.Errorf("address %s then %s; old pause alive: %v", before.Status.PodIP, after.Status.PodIP, pause.alive())
	}
	ask(t, "tcp", after.Status.PodIP+":8080", "x\n")
}

func TestLabelChangeKeeps(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"))
	pause := l.pause("web-1")
	changed := web("web-1")
	changed.Labels = map[string]string{"app": "other"}
	after := l.sync(changed)[0]
	if l.pause("web-1") != pause || after.Labels["app"] != "other" {
		t.Errorf("pause %v then %v, labels %v", pause, l.pause("web-1"), after.Labels)
	}
}

func TestUnwantedPodsAreDeletedLast(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"), web("web-2"))
	pause := l.pause("web-1")
	p, err := l.Plan(t.Context(), []*corev1.Pod{web("web-2")})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Create.Changes()) != 0 || len(p.Delete.Changes()) == 0 {
		t.Errorf("create %v, delete %v", p.Create.Changes(), p.Delete.Changes())
	}
	l.sync(web("web-2"))
	if pause.alive() {
		t.Error("the pause process is alive")
	}
	for _, pattern := range []string{"state/pods/*web-1*", "state/pause/*web-1*", "state/logs/*web-1*", "netns/web-1", "etc/web-1"} {
		if left, _ := filepath.Glob(filepath.Join(l.dir, pattern)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"), program("client", "sh", "-c", "sleep 1000 & sleep 1000"))
	p, err := l.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := sh(t, "find %s -mindepth 1 ! -path %s/state ! -path '*/state/events*'", l.dir, l.dir); left != "" {
		t.Errorf("files left: %s", left)
	}
	if left := sh(t, "ip -o link show type veth; ip -o link show type bridge"); left != "" {
		t.Errorf("links left: %s", left)
	}
	if found, err := pauses(l.cfg.StateDir); err != nil || len(found) > 0 {
		t.Errorf("processes left: %v, %v", found, err)
	}
}

func TestExhaustedRangeFailsOnePod(t *testing.T) {
	l := newLab(t, "10.244.0.0/30")
	p, err := l.Plan(t.Context(), []*corev1.Pod{web("web-1"), web("web-2")})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Pods) != 1 || len(p.Problems) != 1 || p.Problems[0].Object.Name != "web-2" {
		t.Fatalf("pods %v, problems %v", p.Pods, p.Problems)
	}
	if err := p.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "Pod default/web-2: Pod range 10.244.0.0/30 is exhausted") {
		t.Errorf("got %v", err)
	}
	ask(t, "tcp", "10.244.0.2:8080", "x\n")
}

func TestStartErrors(t *testing.T) {
	for _, tc := range []struct {
		name    string
		command []string
		dir     string
		want    string
	}{
		{"not found", []string{"no-such-program"}, "", "StartError: program not found on this host: there is no \"no-such-program\" in PATH"},
		{"no such file", []string{"./no-such-program"}, "", "StartError: program not found on this host: /no-such-program: no such file"},
		{"not executable", []string{"/etc/passwd"}, "", "StartError: program not found on this host: /etc/passwd: is not executable"},
		{"no interpreter", []string{"./script"}, "work", "script is there, but not the interpreter"},
		{"no directory", []string{"sleep", "1000"}, "/no/such/directory", "StartError: workingDir /no/such/directory: no such file or directory"},
		{"fails at once", []string{"sh", "-c", "echo cannot read config >&2; exit 3"}, "", "Error: exited with status 3: cannot read config"},
		{"escapes and fails", []string{"sh", "-c", "printf '\\033[31m\\302\\233evil\\n'; exit 3"}, "", "Error: exited with status 3: ?[31m?evil;"},
		{"killed", []string{"sh", "-c", "kill -9 $$$$"}, "", "ended by signal killed"},
		{"done at once", []string{"true"}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			bad := program("bad", tc.command...)
			bad.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 9}} // not ready before it ends, on slow machines too
			if bad.Spec.Containers[0].WorkingDir = tc.dir; tc.dir == "work" {
				bad.Spec.Containers[0].WorkingDir = scriptWithoutInterpreter(t)
			}
			checkStartError(t, l.try(bad, web("good")), tc.want)
			live, err := l.List(t.Context())
			if err != nil || ready(live[0]) || !ready(live[1]) {
				t.Errorf("bad ready: %v, good ready: %v, %v", ready(live[0]), ready(live[1]), err)
			}
			if p, err := l.Plan(t.Context(), []*corev1.Pod{bad, web("good")}); err != nil || len(p.Changes()) > 0 {
				t.Errorf("second pass: %v, %v", p.Changes(), err)
			}
		})
	}
}

func scriptWithoutInterpreter(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("#!/no/such/shell\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func checkStartError(t *testing.T, err error, want string) {
	t.Helper()
	var start *StartError
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (!errors.As(err, &start) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Pod default/bad: container main")):
		t.Errorf("got %v, want %q", err, want)
	}
}

// A container whose program is missing is started when it is there, in the same
// Pod. One that is never to be restarted is only named.
func TestStartErrorIsTriedAgain(t *testing.T) {
	l := newLab(t)
	l.cfg.Backoff = Backoff{Initial: 200 * time.Millisecond}
	path := filepath.Join(t.TempDir(), "server")
	late, never := program("late", path), program("never", path)
	never.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := l.try(late, never); err == nil {
		t.Fatal("there is no such program")
	}
	p, err := l.Plan(t.Context(), []*corev1.Pod{late, never})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(p.Problems)
	for _, want := range []string{
		"Pod default/late: spec.containers[0]: container main keeps ending (StartError: program not found",
		"Pod default/never: spec.containers[0]: container main was not started (StartError: program not found",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("problems: %v, want %q", got, want)
		}
	}
	pause := l.pause("late")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	poll(t, "the start", func() bool { return l.report("late").Containers[0].Ready })
	if after := l.sync(late, never); !ready(after[0]) || ready(after[1]) || l.pause("late") != pause {
		t.Errorf("late ready: %v, never ready: %v", ready(after[0]), ready(after[1]))
	}
}

func TestSharedNetworkOfContainers(t *testing.T) {
	l := newLab(t)
	p := web("web-1")
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "side", Command: []string{"sh", "-c",
		"hostname; until curl -s localhost:8080; do sleep 0.1; done; curl -s $POD_IP:8080/hostname; echo end; sleep 1000"},
		Env: []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}})
	l.sync(p)
	var log string
	poll(t, "the side container's log", func() bool {
		b, _ := os.ReadFile(LogPath(l.cfg.StateDir, "default", "web-1", "side"))
		log = string(b)
		return strings.Contains(log, "end")
	})
	name := "web-1"
	if _, err := os.Stat("/proc/self/ns/uts"); err != nil { // a kernel without UTS namespaces
		name, _ = os.Hostname()
	}
	if !strings.HasPrefix(log, name+"\nweb-1 ") || !strings.HasSuffix(log, "\nweb-1\nend\n") {
		t.Errorf("log %q", log)
	}
	if name, _ := os.Hostname(); name == "web-1" {
		t.Error("the node has the Pod's host name")
	}
	p2 := web("web-2")
	p2.Spec.Containers = append(p2.Spec.Containers, *p2.Spec.Containers[0].DeepCopy())
	p2.Spec.Containers[1].Name = "second"
	if err := l.try(p, p2); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("two containers on one port: %v", err)
	}
}

// L12: no toyproxy is needed once the Pods live.
func TestKilledToyproxyLeavesPods(t *testing.T) {
	l := newLab(t)
	cmd := exec.Command("/proc/self/exe", "apply-and-hang", l.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "applied <nil>\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if got := ask(t, "tcp", "10.244.0.2:8080", "x\n"); !strings.HasPrefix(got, "web-1 ") {
		t.Errorf("got %q", got)
	}
	l.sync(web("web-1"))
	if l.pause("web-1").signal(unix.Signal(0)); !l.pause("web-1").alive() {
		t.Error("the next pass replaced the Pod")
	}
}

func TestLostStateIsRecovered(t *testing.T) {
	for _, lose := range []string{"pods", "pause", "podnet.json", "."} {
		t.Run(lose, func(t *testing.T) {
			l := newLab(t)
			l.sync(web("web-1"), web("web-2"))
			old := l.pause("web-2")
			t.Cleanup(func() { unix.Unmount(filepath.Join(l.dir, "netns"), unix.MNT_DETACH) })
			os.RemoveAll(filepath.Join(l.cfg.StateDir, lose))
			if l.try(web("web-1")); lose == "podnet.json" {
				l.sync(web("web-1"))
			}
			pods := l.sync(web("web-1"))
			ask(t, "tcp", pods[0].Status.PodIP+":8080", "x\n")
			if old.alive() {
				t.Error("the Pod that nobody wants is alive")
			}
		})
	}
}

func TestDamagedStateFile(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"), web("web-2"))
	files, _ := filepath.Glob(filepath.Join(l.cfg.StateDir, "pods", "*web-1*"))
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if live, err := l.List(t.Context()); err == nil || !strings.Contains(err.Error(), files[0]) || len(live) != 1 {
		t.Errorf("live %d, %v", len(live), err)
	}
	l.sync(web("web-1"), web("web-2"))
}

// A pid that was given to another process since is left alone.
func TestReusedPidIsLeft(t *testing.T) {
	sandbox.Node(t)
	foreign := exec.Command("sleep", "1000")
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { foreign.Process.Kill(); foreign.Wait() })
	s, err := readStat(foreign.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	stale := process{s.pid, s.start - 1}
	if err := errors.Join(stale.signal(unix.SIGKILL), waitEnd(t.Context(), stale, time.Now())); err != nil {
		t.Fatal(err)
	}
	if !(process{s.pid, s.start}).alive() {
		t.Error("the foreign process was ended")
	}
}

// A process with the command line of ours that sits in another namespace is that
// of another toyproxy, in a container with the same directories, say.
func TestLookalikeIsLeft(t *testing.T) {
	l := newLab(t)
	l.sync(web("web-1"))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pause"), []byte("sleep 1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := &exec.Cmd{Path: "/bin/sh", Dir: dir, Args: append([]string{"toyproxy"}, pauseArgs("default/web-9", l.cfg.StateDir)...)}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })
	poll(t, "its command line", func() bool {
		found, err := pauses(l.cfg.StateDir)
		return err == nil && len(found) == 2
	})
	l.sync()
	s, err := readStat(other.Process.Pid)
	if err != nil || s.dead() {
		t.Errorf("it was ended: %v", err)
	}
}

// A Pod that is to be replaced serves until the new ones of the same pass are
// ready, and longer when the pass is interrupted.
func TestReplacedPodsServeMeanwhile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sync(web("web-1"))
	slow := web("slow")
	server, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	slow.Spec.Containers[0].Command = []string{"sh", "-c", "sleep 1; exec " + server + " stand-in --pod slow --port 8080/TCP"}
	changed := web("web-1")
	changed.Spec.Containers[0].Image = "web:2"
	for _, patience := range []time.Duration{400 * time.Millisecond, time.Minute} {
		p, err := l.Plan(t.Context(), []*corev1.Pod{changed, slow})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		served := make(chan error, 1)
		time.AfterFunc(200*time.Millisecond, func() {
			served <- podnet.Do(l.net.Path("web-1"), func() error {
				c, err := net.Dial("tcp", "10.244.0.2:8080")
				if err == nil {
					err = c.Close()
				}
				return err
			})
		})
		if err := p.Apply(ctx); (err == nil) != (patience == time.Minute) {
			t.Errorf("after %s: %v", patience, err)
		}
		if err := <-served; err != nil {
			t.Errorf("within %s the old Pod did not serve: %v", patience, err)
		}
		cancel()
	}
	if after := l.sync(changed, slow); after[0].Spec.Containers[0].Image != "web:2" || after[0].Status.PodIP == "10.244.0.2" {
		t.Errorf("web-1 was not replaced: %+v", after[0].Status)
	}
}

// Who waits long is told what for.
func TestProgressIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	told := make(chan string, 1)
	l.cfg.Progress = func(what string) { told <- what }
	grace := int64(3)
	pod := program("p", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
	pod.Spec.TerminationGracePeriodSeconds = &grace
	l.sync(pod)
	l.sync()
	if got := <-told; got != "waiting for Pod default/p to end: it is killed 3s after TERM (spec.terminationGracePeriodSeconds)" {
		t.Errorf("told %q", got)
	}
}

// Where a file of the state should be stands a directory: no reason to stop.
func TestDirectoryInPlaceOfAFile(t *testing.T) {
	for _, pattern := range []string{"pods/*web-1*", "pause/*web-1*", "podnet.json"} {
		t.Run(pattern, func(t *testing.T) {
			l := newLab(t)
			t.Cleanup(func() { unix.Unmount(filepath.Join(l.dir, "netns"), unix.MNT_DETACH) })
			l.sync(web("web-1"), web("web-2"))
			files, err := filepath.Glob(filepath.Join(l.cfg.StateDir, pattern))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			sh(t, "rm %s; mkdir -p %s/x", files[0], files[0])
			if pattern != "podnet.json" { // that is written anew only by hand
				l.sync(web("web-1"), web("web-2"))
			}
			p, err := l.Remove(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Apply(t.Context()); err != nil {
				t.Error(err)
			}
			if left := sh(t, "find %s -type f ! -path '*/state/events/*'; ip -o link show type bridge", l.dir); left != "" {
				t.Errorf("left: %s", left)
			}
		})
	}
}
