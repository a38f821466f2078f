package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/load"
	"github.com/toyproxy/toyproxy/podnet"
)

// box is a node of its own for tests that keep an agent: network, mount and process
// namespaces with an empty /run, in which this test binary is toyproxy.
type box struct {
	t   testing.TB
	dir string
	pid int
	// agent is `toyproxy run`, nil when there is none.
	agent *exec.Cmd
}

// newBox makes a node that ends with the test.
func newBox(t testing.TB) *box {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"toyproxy", "stand-in"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	node := exec.Command("sh", "-c", furnish)
	node.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatalf("namespaces of the node: %v", err)
	}
	t.Cleanup(func() {
		_ = node.Process.Kill()
		_ = node.Wait()
	})
	word := make([]byte, 6)
	if _, err := out.Read(word); err != nil || !bytes.HasPrefix(word, []byte("ready")) {
		t.Fatalf("furnishing the node: %v", err)
	}
	return &box{t: t, dir: dir, pid: node.Process.Pid}
}

// command is a command line of the node's shell.
func (b *box) command(line string) *exec.Cmd {
	cmd := exec.Command("nsenter", "-t", strconv.Itoa(b.pid), "-n", "-m", "-p", "--wd="+b.dir, "--", "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+b.dir+":"+os.Getenv("PATH"))
	return cmd
}

// try runs a command line and returns what it printed.
func (b *box) try(line string) (string, error) {
	cmd := b.command(line)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", line, err, stderr.String())
	}
	return string(out), err
}

// sh is try for what has to succeed.
func (b *box) sh(line string) string {
	b.t.Helper()
	out, err := b.try(line)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// write writes a manifest as editors do, by rename.
func (b *box) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, "manifests", name)
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// remove takes a manifest away, if it is there.
func (b *box) remove(name string) { _ = os.Remove(filepath.Join(b.dir, "manifests", name)) }

// run starts the agent. Its log is run.log, to which each start adds.
func (b *box) run(flags string) {
	b.t.Helper()
	b.agent = b.command("exec toyproxy run -f manifests " + flags + " >>run.log 2>&1")
	if err := b.agent.Start(); err != nil {
		b.t.Fatal(err)
	}
}

// agentPID is the agent's number as this test sees it: that of nsenter's child.
func (b *box) agentPID() int {
	b.t.Helper()
	return childOf(b, b.agent.Process.Pid)
}

// childOf waits for the child of an nsenter.
func childOf(b *box, parent int) (pid int) {
	b.t.Helper()
	b.await("the process", func() bool {
		children, err := exec.Command("pgrep", "-P", strconv.Itoa(parent)).Output()
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
		return err == nil
	})
	return pid
}

// kill ends the agent by a signal and waits until it has ended.
func (b *box) kill(sig syscall.Signal) {
	b.t.Helper()
	if err := syscall.Kill(b.agentPID(), sig); err != nil {
		b.t.Fatal(err)
	}
	_ = b.agent.Wait()
	b.agent = nil
}

// longest is how long a test waits for what is to come by itself: many times what it
// takes, as the machine may have other work.
const longest = 4 * time.Minute

// await waits for a condition.
func (b *box) await(what string, holds func() bool) {
	b.t.Helper()
	for end := time.Now().Add(longest); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(b.dir, "run.log"))
			b.t.Fatalf("waited in vain for %s; the end of the agent's log:\n%s", what, log[max(0, len(log)-4000):])
		}
	}
}

// awaitAnswer waits until a frontend answers from a Pod.
func (b *box) awaitAnswer(pod, addr string) {
	b.t.Helper()
	b.await(addr+" to answer "+pod, func() bool {
		_, err := b.try("ip netns exec " + pod + " curl -sf -m 2 -o /dev/null " + addr)
		return err == nil
	})
}

// stream opens connections from a Pod at a steady rate until stop is called, which
// returns what became of them.
func (b *box) stream(pod, target string, rate int) (stop func() load.Result) {
	b.t.Helper()
	cmd := b.command(fmt.Sprintf("exec ip netns exec %s toyproxy load %s --rate %d --patience 20s --for 2h -o json", pod, target, rate))
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	return func() load.Result {
		b.t.Helper()
		_ = exec.Command("pkill", "-INT", "-P", strconv.Itoa(cmd.Process.Pid)).Run()
		_ = cmd.Wait()
		var res load.Result
		if err := json.Unmarshal(out.Bytes(), &res); err != nil {
			b.t.Fatalf("result of the load: %v: %s", err, out.String())
		}
		return res
	}
}

// flow is a connection from a Pod that has to stay: what is sent is answered by
// one and the same Pod.
type flow struct {
	conn net.Conn
	by   string
}

// dial opens a flow from a Pod.
func (b *box) dial(pod, protocol, target string) *flow {
	b.t.Helper()
	f := &flow{}
	err := podnet.Do(fmt.Sprintf("/proc/%d/root/run/netns/%s", b.pid, pod), func() (err error) {
		f.conn, err = net.DialTimeout(protocol, target, 30*time.Second)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = f.conn.Close() })
	if f.by, err = f.ask(); err != nil {
		b.t.Fatalf("%s flow to %s: %v", protocol, target, err)
	}
	return f
}

// ask sends a line and returns who answered. A datagram is sent again when nothing
// comes back: it may be lost.
func (f *flow) ask() (string, error) {
	buf := make([]byte, 2048)
	var n int
	var err error
	for range 3 {
		if _, err = f.conn.Write([]byte("hello\n")); err != nil {
			return "", err
		}
		_ = f.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err = f.conn.Read(buf)
		if err == nil || f.conn.LocalAddr().Network() == "tcp" {
			break
		}
	}
	if err != nil {
		return "", err
	}
	by, _, _ := strings.Cut(string(buf[:n]), " ")
	return by, nil
}

// check fails the test unless the flow still goes to the same Pod.
func (f *flow) check(t testing.TB, when string) {
	t.Helper()
	by, err := f.ask()
	if err != nil {
		t.Fatalf("%s: the %s flow from %s has ended: %v", when, f.conn.LocalAddr().Network(), f.conn.LocalAddr(), err)
	}
	if by != f.by {
		t.Fatalf("%s: the %s flow went from %s to %s", when, f.conn.LocalAddr().Network(), f.by, by)
	}
}

// deploymentText is a Deployment and, if it has an address, its Service.
func deploymentText(name, address string, replicas int, version string) string {
	text := fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 2
      containers: [{name: main, image: "example.com/%[1]s:%[3]s", ports: [{containerPort: 8080}, {containerPort: 8080, protocol: UDP}]}]
`, name, replicas, version)
	if address != "" {
		text += "---\n" + serviceText(name, address, name, 80)
	}
	return text
}

// serviceText is a Service that selects app=APP and listens on TCP and UDP.
func serviceText(name, address, app string, port int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %s}
spec:
  clusterIP: %s
  selector: {app: %s}
  ports: [{name: t, port: %d, targetPort: 8080}, {name: u, port: %[4]d, targetPort: 8080, protocol: UDP}]
`, name, address, app, port)
}

// clientText is a Pod that listens on nothing.
func clientText(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: client}}\nspec: {containers: [{name: main, image: example.com/client}]}\n", name)
}
