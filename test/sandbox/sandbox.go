// Package sandbox gives kernel tests a machine of their own: network, mount and
// process namespaces in which they make links, mounts and processes that the
// host never sees, and that end with the tests. It is for tests alone, and
// decides nothing about what they test.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stateEnv tells a test binary what it is: unset outside, "inside", or why there
// is no inside.
const stateEnv = "TOYPROXY_SANDBOX"

const inside = "inside"

// Main runs the tests of a package inside: the test binary executes itself again
// in new namespaces, as root there, with /run empty and /etc writable. Call it
// from TestMain.
func Main(m *testing.M) {
	if os.Getenv(stateEnv) == inside {
		if err := prepare(); err != nil {
			os.Setenv(stateEnv, err.Error())
		}
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stateEnv+"="+inside)
	cmd.SysProcAttr = namespaces()
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	}
	os.Setenv(stateEnv, err.Error())
	os.Exit(m.Run())
}

func namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// prepare mounts what the tests write to.
func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount of /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount of /run: %w", err)
	}
	upper, work := "/run/.etc/upper", "/run/.etc/work"
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	options := "lowerdir=/etc,upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("overlay", "/etc", "overlay", 0, options); err != nil {
		return fmt.Errorf("overlay on /etc: %w", err)
	}
	return nil
}

// Node puts the calling test into a new network namespace, the node, until it
// ends. Subtests have to call it too. It skips where namespaces cannot be had,
// and fails instead in a guest that was made for these tests.
func Node(t testing.TB) {
	t.Helper()
	if state := os.Getenv(stateEnv); state != inside {
		missing(t, "namespaces for tests", errors.New(state))
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		missing(t, "network namespaces", err)
	}
}

func missing(t testing.TB, part string, err error) {
	t.Helper()
	if os.Getenv("VMRUN_GUEST") != "" {
		t.Fatalf("%s: %v", part, err)
	}
	t.Skipf("SKIP(kernel): %s: %v", part, err)
}
