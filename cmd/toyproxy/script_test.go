package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toyproxy/toyproxy/pods"
)

// The scripts below testdata/script are what users type and see. Commands run
// in a node of their own: new network, mount and process namespaces with an
// empty /run, so that the test touches nothing of the machine.
//
//	node [-exit N] [-in FILE] COMMAND…   runs COMMAND in the script's node
//	snapshot FILE                        dumps all kernel state of the node
//	large N FILE [SERVICE ENDPOINT]      writes a manifest of N Services
func TestMain(m *testing.M) {
	// They wait more than they work.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"toyproxy": main, pods.StandInName: main})
}

func TestScripts(t *testing.T) {
	requireRoot(t)
	t.Parallel() // with the living tests, which wait most of the time
	testscript.Run(t, testscript.Params{
		Files: scripts(t),
		Setup: startNode,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"node": nodeCommand, "snapshot": snapshotCommand, "large": largeCommand,
		},
		Condition:          condition,
		RequireUniqueNames: true,
		UpdateScripts:      os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// scripts are all of them; in a guest, which was started for IPVS and where every
// process takes its time, those that ask whether the kernel has it.
func scripts(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(all) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	if !inGuest() {
		return all
	}
	return slices.DeleteFunc(all, func(name string) bool {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return !bytes.Contains(text, []byte("ipvs] "))
	})
}

// inGuest tells whether this is the kernel that only IPVS is tested in: the other
// backends have had their turn natively.
func inGuest() bool { return os.Getenv("VMRUN_GUEST") != "" }

// requireRoot skips where namespaces cannot be made; in a test VM that is a failure.
func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if inGuest() {
		t.Fatal("not root in the test VM")
	}
	t.Skip("SKIP(kernel): not root, no network namespaces")
}

// condition knows [ipvs], [nft] and [nftables]: the kernel has IPVS, the engine
// nft of iptables, nftables with NAT; and [guest]: this is the kernel that only
// IPVS is tested in, the other backends have had their turn natively.
func condition(cond string) (bool, error) {
	switch cond {
	case "guest":
		return inGuest(), nil
	case "ipvs":
		return exec.Command("unshare", "-n", "ipvsadm", "-Ln").Run() == nil, nil
	case "nftables":
		return exec.Command("unshare", "-n", "nft", "add table ip p; add chain ip p c { type nat hook output priority 0; }").Run() == nil, nil
	case "nft":
		return exec.Command("unshare", "-n", "iptables-nft", "-t", "nat", "-N", "PROBE").Run() == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

const furnish = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/netns /run/lock /run/etc/upper /run/etc/work
mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work etc /etc
ip link set lo up
echo ready
sleep infinity &
wait`

// startNode makes the namespaces of one script and keeps them while it runs.
func startNode(env *testscript.Env) error {
	cmd := exec.Command("sh", "-c", furnish)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("namespaces of the node: %w", err)
	}
	env.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line := make([]byte, 6)
	if _, err := stdout.Read(line); err != nil || !strings.HasPrefix(string(line), "ready") {
		return fmt.Errorf("furnishing the node: %v: %s", err, stderr.String())
	}
	env.Setenv("NODE_PID", strconv.Itoa(cmd.Process.Pid))
	env.Setenv("HOME", "/root")
	return nil
}

func nodeArgs(ts *testscript.TestScript, args []string) []string {
	return append([]string{"-t", ts.Getenv("NODE_PID"), "-n", "-m", "-p", "--wd=" + ts.MkAbs("."), "--"}, args...)
}

// nodeCommand runs a command in the node and checks how it ended.
func nodeCommand(ts *testscript.TestScript, neg bool, args []string) {
	want := 0
	if len(args) > 1 && args[0] == "-exit" {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		want, args = n, args[2:]
	}
	err := ts.Exec("nsenter", nodeArgs(ts, args)...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	switch {
	case neg && code == 0:
		ts.Fatalf("%s succeeded, it should not", strings.Join(args, " "))
	case !neg && code != want:
		ts.Fatalf("%s ended with %d, want %d", strings.Join(args, " "), code, want)
	}
}

// dumps is everything toyproxy down has to leave as it was. The legacy engine
// cannot take away an empty table that was used once: all are brought up first.
const dumps = `
for f in iptables ip6tables; do for t in nat filter mangle; do $f-legacy -t $t -S >/dev/null 2>&1; done; done
for e in nft legacy; do for f in iptables ip6tables; do
  command -v $f-$e-save >/dev/null || continue
  echo "== $f-$e"; $f-$e-save 2>/dev/null | sed 's/\[[0-9]*:[0-9]*\]//' | grep -v '^#'
done; done
echo == nft; nft list table ip toyproxy 2>/dev/null; nft list table ip6 toyproxy 2>/dev/null
echo == ipset; ipset list 2>/dev/null
echo == ipvs; ipvsadm -Sn 2>/dev/null
for f in -4 -6; do echo == addr $f; ip $f -o addr show | grep -v fe80
echo == route $f; ip $f route show table all | grep -v fe80 | sed 's/ metric [0-9]*//'; done
echo == link; ip -o link | sed 's/^[0-9]*: //'
echo == netns; ip netns list; ls -A /run/netns /etc/netns 2>/dev/null
echo == sysctl; sysctl -a 2>/dev/null | grep -E '^net\.(ipv4|ipv6|netfilter|bridge)' | grep -vE 'random|stat|count|nf_conntrack_max|\.(eth|veth|toy)|tcp_fastopen_key|nf_log|tcp_mem|neigh|mtu_expires|_time_|drop|inode|secret'
echo == processes; ps -e -o args= | grep -E 'toyproxy|stand-in' | grep -v grep
true`

// snapshotCommand writes the node's kernel state to a file of the script.
func snapshotCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: snapshot FILE")
	}
	cmd := exec.Command("nsenter", nodeArgs(ts, []string{"sh", "-c", dumps})...)
	timer := time.AfterFunc(longest, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.Output()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out, 0o600))
}
